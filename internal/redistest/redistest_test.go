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

// A port is given once, whether or not somebody listens on it.
func TestPortsAreGivenOnce(t *testing.T) {
	given := make(map[int]bool)
	for range 400 { // two of which would be the same
		port := FreePort(t)
		if given[port] {
			t.Fatalf("port %d is given twice", port)
		}
		given[port] = true
	}
}

// A server of a Cluster that does not get the port of its bus gets another one.
func TestABusThatIsTaken(t *testing.T) {
	there := StartCluster(t)[0]
	late := &Server{tb: t, dir: t.TempDir(), port: FreePort(t), bus: there.bus}
	if err := late.start(); err == nil {
		late.kill()
		t.Error("it is said to have started")
	}
	start(t, late)
	if late.bus == there.bus {
		t.Error("it has the same port")
	}
}
