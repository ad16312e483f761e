package redistest

import "testing"

// A server that does not get its port is not taken for the one that has it.
func TestAPortThatIsTaken(t *testing.T) {
	there := Start(t)
	late := &Server{tb: t, dir: t.TempDir(), port: there.port}
	if err := late.start(); err == nil {
		late.kill()
		t.Error("it is said to have started")
	}
}
