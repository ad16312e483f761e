package server_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/longwire/longwire/server"
)

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// names returns what is in the directory of the state file.
func names(t *testing.T, path string) string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return strings.Join(all, " ")
}

func TestFilesOfARestart(t *testing.T) {
	o := server.Options{StateFile: stateFile(t)}
	inWorld(t, o, func(t *testing.T, w *world) {
		want(t, "files of a first start", names(t, o.StateFile), "state.run")
		w.publish("s", `1`)
		if err := w.srv.SaveState(); err != nil {
			t.Fatal(err)
		}
		want(t, "files after SaveState", names(t, o.StateFile), "state state.run")
		for _, name := range []string{o.StateFile, o.StateFile + ".run"} {
			info, err := os.Stat(name)
			if err != nil {
				t.Fatal(err)
			}
			want(t, "mode of "+name, info.Mode(), os.FileMode(0o600))
		}
		newWorld(t, o)
		want(t, "files after the next start", names(t, o.StateFile), "state.run state.used")
	})
}

// The file of a server with a little of everything, and its marker.
func savedState(t *testing.T, o server.Options) (c *client, epoch string) {
	t.Helper()
	w := newWorld(t, o)
	c = w.join("ann", `"subs":{"s":{}}`)
	w.publish("s", `1`)
	c.msg("1", "x")
	synctest.Wait()
	_ = w.srv.Close()
	if err := w.srv.SaveState(); err != nil {
		t.Fatal(err)
	}
	return c, c.welcome.Subs["s"].Epoch
}

func TestStateThatIsRefused(t *testing.T) {
	replace := func(old, with string) func(t *testing.T, path string) {
		return func(t *testing.T, path string) {
			data := read(t, path)
			if !bytes.Contains(data, []byte(old)) {
				t.Fatalf("no %s in %s", old, data)
			}
			write(t, path, bytes.Replace(data, []byte(old), []byte(with), 1))
		}
	}
	for name, tt := range map[string]struct {
		change func(t *testing.T, path string)
		reason string
	}{
		"a changed byte": {replace(`"head":1`, `"head":2`), "checksum does not match"},
		"a changed sum":  {replace(`"sha256"`, `"shA256"`), "checksum does not match"},
		"truncated in the middle": {func(t *testing.T, path string) {
			data := read(t, path)
			write(t, path, data[:len(data)/2])
		}, "last line is missing"},
		"truncated by a line": {func(t *testing.T, path string) {
			data := read(t, path)
			write(t, path, data[:bytes.LastIndex(data, []byte(`{"end"`))])
		}, "last line is missing"},
		"empty":    {func(t *testing.T, path string) { write(t, path, nil) }, "last line is missing"},
		"no state": {func(t *testing.T, path string) { write(t, path, []byte("a\nb\n")) }, "last line is missing"},
		"no marker": {func(t *testing.T, path string) {
			if err := os.Remove(path + ".run"); err != nil {
				t.Fatal(err)
			}
		}, "no marker file"},
		"an empty marker":         {func(t *testing.T, path string) { write(t, path+".run", []byte("\n")) }, "no marker file"},
		"a marker of another run": {func(t *testing.T, path string) { write(t, path+".run", []byte("other\n")) }, "not of the last run"},
		"an old file": {func(t *testing.T, path string) {
			data := read(t, path)
			o := server.Options{StateFile: path, Logger: slog.New(slog.DiscardHandler)}
			for range 2 {
				srv, err := server.New(o)
				if err != nil {
					t.Fatal(err)
				}
				if err = srv.SaveState(); err != nil {
					t.Fatal(err)
				}
			}
			write(t, path, data)
		}, "not of the last run"},
		"a file that was used": {func(t *testing.T, path string) {
			data := read(t, path)
			srv, err := server.New(server.Options{StateFile: path, Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			_ = srv.Close() // a crash
			write(t, path, data)
		}, "not of the last run"},
		"too old": {func(t *testing.T, path string) { time.Sleep(10*time.Minute + 1) }, "too old: saved 10m0.000000001s ago, of use for 10m0s"},
	} {
		t.Run(name, func(t *testing.T) {
			path := stateFile(t)
			var logged bytes.Buffer
			o := server.Options{StateFile: path, OnMessage: echo, Logger: slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelError}))}
			synctest.Test(t, func(t *testing.T) {
				c, epoch := savedState(t, o)
				tt.change(t, path)
				before := read(t, path)
				w := newWorld(t, o)
				if got := logged.String(); !strings.Contains(got, tt.reason) || !strings.Contains(got, path) || strings.Count(got, "\n") != 1 {
					t.Errorf("logged %s\nwant one line with %q and %q", got, tt.reason, path)
				}
				if got := read(t, path+".refused"); !bytes.Equal(got, before) {
					t.Error("the file that was moved is another")
				}
				if _, err := os.Stat(path); !os.IsNotExist(err) {
					t.Errorf("the file is still there: %v", err)
				}
				again := w.join("ann", c.back(), fmt.Sprintf(`"subs":{"s":{"after":1,"epoch":%q}}`, epoch))
				s := again.welcome.Subs["s"]
				if again.welcome.Session == c.welcome.Session || again.welcome.DedupeID == c.welcome.DedupeID || s.Epoch == epoch || !s.Resync {
					t.Errorf("something of the old state is still there: %+v", again.welcome)
				}
				_ = w.srv.Close()
				if err := w.srv.SaveState(); err != nil { // the next restart is as any other
					t.Fatal(err)
				}
				next := newWorld(t, o).join("ann", again.back())
				want(t, "session after the next restart", next.welcome.Session, again.welcome.Session)
			})
		})
	}
}

func TestStateOfTheFutureIsRefused(t *testing.T) {
	path := stateFile(t)
	o := server.Options{StateFile: path, OnMessage: echo}
	var state, marker []byte
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(2 * time.Minute)
		savedState(t, o)
		state, marker = read(t, path), read(t, path+".run")
	})
	for wait, sessions := range map[time.Duration]int{59 * time.Second: 0, 61 * time.Second: 1} {
		write(t, path+".run", marker)
		write(t, path, state)
		synctest.Test(t, func(t *testing.T) {
			time.Sleep(wait)
			want(t, fmt.Sprintf("sessions after %v", wait), newWorld(t, o).srv.Stats().Sessions, sessions)
		})
	}
}

// Of several processes that start at once one takes the state over.
func TestStateIsTakenOverOnce(t *testing.T) {
	for range 20 {
		path := stateFile(t)
		o := server.Options{StateFile: path, Logger: slog.New(slog.DiscardHandler)}
		first, err := server.New(o)
		if err != nil {
			t.Fatal(err)
		}
		if _, err = first.Publish(t.Context(), "s", []byte(`1`)); err != nil {
			t.Fatal(err)
		}
		if err = first.SaveState(); err != nil {
			t.Fatal(err)
		}
		var starts sync.WaitGroup
		started := make([]*server.Server, 4)
		for i := range started {
			starts.Go(func() {
				// One may fail because the files of another are in its way.
				started[i], _ = server.New(o)
			})
		}
		starts.Wait()
		took := 0
		for _, srv := range started {
			if srv != nil {
				took += srv.Stats().Streams
				_ = srv.Close()
			}
		}
		if took > 1 {
			t.Fatalf("%d servers carry on the same numbering", took)
		}
	}
}

func TestStateFileThatCannotBe(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "state")
	for name, tt := range map[string]struct {
		path, reason string
		before       func(t *testing.T)
	}{
		"no directory":    {filepath.Join(dir, "none", "state"), "no such file", func(*testing.T) {}},
		"a directory":     {dir, "is not a regular file", func(*testing.T) {}},
		"marker in a way": {path, "state.run", func(t *testing.T) { mkdir(t, path+".run") }},
	} {
		t.Run(name, func(t *testing.T) {
			tt.before(t)
			_, err := server.New(server.Options{StateFile: tt.path})
			wantError(t, err, "server: Options.StateFile: ")
			wantError(t, err, tt.reason)
		})
	}
	t.Run("not readable", func(t *testing.T) {
		if os.Geteuid() == 0 {
			t.Skip("root may read everything")
		}
		path := stateFile(t)
		write(t, path, nil)
		if err := os.Chmod(path, 0); err != nil {
			t.Fatal(err)
		}
		_, err := server.New(server.Options{StateFile: path})
		wantError(t, err, "permission denied")
		want(t, "files", names(t, path), "state")
	})
}

func mkdir(t *testing.T, path string) {
	t.Helper()
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
}

func TestSaveStateThatFailsLeavesNothing(t *testing.T) {
	path := stateFile(t)
	inWorld(t, server.Options{StateFile: path}, func(t *testing.T, w *world) {
		mkdir(t, path)
		write(t, filepath.Join(path, "x"), nil) // so that nothing can be renamed to it
		wantError(t, w.srv.SaveState(), "server: save state: ")
		want(t, "files", names(t, path), "state state.run")
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
		if err := w.srv.SaveState(); err != nil {
			t.Errorf("SaveState again: %v", err)
		}
	})
}
