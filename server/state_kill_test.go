//go:build unix

package server_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/longwire/longwire/server"
	"github.com/longwire/longwire/wire"
)

// victimDir, when it is set, makes the test binary the process that is killed.
const victimDir = "LONGWIRE_TEST_VICTIM_DIR"

// victim publishes and restarts as planned, without end. A line of the ledger
// follows each event.
func victim(dir string) error {
	ctx := context.Background()
	ledger, err := os.OpenFile(filepath.Join(dir, "ledger"), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	var srv atomic.Pointer[server.Server]
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { //nolint:errcheck,gosec // until it is killed
		if s := srv.Load(); s != nil {
			s.ServeHTTP(w, r)
		}
	}))
	fmt.Println(l.Addr())
	for n := 0; ; n++ {
		s, err := server.New(server.Options{
			StateFile: filepath.Join(dir, "state"), NoOrigin: true, Logger: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			return err
		}
		srv.Store(s)
		for i := range 1 + rand.IntN(4) {
			data := fmt.Sprintf(`"%d.%d.%d"`, os.Getpid(), n, i)
			var seq uint64
			if seq, err = s.Publish(ctx, "s", []byte(data)); err != nil {
				return err
			}
			if _, err = fmt.Fprintf(ledger, "%s %d %s\n", s.EpochOf("s"), seq, data); err != nil {
				return err
			}
			time.Sleep(time.Duration(rand.IntN(1000)) * time.Microsecond) // for the checker to connect
		}
		if err = s.Close(); err != nil {
			return err
		}
		if err = s.SaveState(); err != nil {
			return err
		}
	}
}

// judge knows which event was published, or seen, under which number.
type judge struct {
	mu       sync.Mutex
	events   map[string]string // data by epoch and number
	verdict  error             // the first thing found wrong
	servers  map[string]bool   // that have published
	epochs   map[string]bool
	resumed  int // positions of an earlier server that were covered
	resynced int // and those that were not
}

func (j *judge) published(epoch string, seq uint64, data string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	key := fmt.Sprintf("%s %d", epoch, seq)
	if was, ok := j.events[key]; ok && was != data {
		j.fail("event %s is %s and was %s", key, data, was)
	}
	j.events[key] = data
	j.epochs[epoch] = true
	j.servers[data[:strings.LastIndexByte(data, '.')]] = true
}

// fail needs j.mu.
func (j *judge) fail(format string, args ...any) {
	if j.verdict == nil {
		j.verdict = fmt.Errorf(format, args...)
	}
}

// checker follows the stream of whatever server there is.
type checker struct {
	judge   *judge
	session string
	gen     int
	epoch   string // "" without a position
	after   uint64
}

// follow reads until the connection ends.
func (c *checker) follow(ctx context.Context, addr string) {
	ws, _, err := websocket.Dial(ctx, "ws://"+addr, nil)
	if err != nil {
		return // killed, or between two servers
	}
	defer ws.CloseNow() //nolint:errcheck // it is over
	want := ""
	if c.epoch != "" {
		want = fmt.Sprintf(`"after":%d,"epoch":%q`, c.after, c.epoch)
	}
	c.gen++
	resume := fmt.Appendf(nil, `{"t":"resume","v":1,"session":%q,"gen":%d,"subs":{"s":{%s}}}`, c.session, c.gen, want)
	if ws.Write(ctx, websocket.MessageText, resume) != nil {
		return
	}
	for {
		_, msg, err := ws.Read(ctx)
		if err != nil {
			return
		}
		frames, err := wire.Decode(msg)
		c.judge.mu.Lock()
		if err != nil {
			c.judge.fail("%s: %w", msg, err)
		}
		for _, f := range frames {
			c.take(f)
		}
		c.judge.mu.Unlock()
	}
}

// take needs judge.mu.
func (c *checker) take(f wire.Frame) {
	j := c.judge
	switch f := f.(type) {
	case wire.Welcome:
		a := f.Subs["s"]
		c.session = f.Session
		switch {
		case c.epoch == "":
			c.epoch, c.after = a.Epoch, a.Seq
		case a.Resync:
			j.resynced++
		case a.Epoch != c.epoch || a.Seq < c.after:
			j.fail("position %s %d was covered by %+v", c.epoch, c.after, a)
		default:
			j.resumed++
		}
	case wire.Reset:
		if f.Stream == "s" {
			c.epoch, c.after = f.Epoch, f.Seq
		}
	case wire.Event:
		if f.Stream != "s" || f.Seq != c.after+1 {
			j.fail("event %s %d at %s %d", f.Stream, f.Seq, c.epoch, c.after)
		}
		c.after = f.Seq
		key := fmt.Sprintf("%s %d", c.epoch, f.Seq)
		if was, ok := j.events[key]; ok && was != string(f.Data) {
			j.fail("event %s came as %s and was %s", key, f.Data, was)
		}
		j.events[key] = string(f.Data)
	}
}

// TestKilledAtAnyMoment kills servers, also while they save or start, and puts old
// files back. Every next one starts, and none gives a number to a second event.
func TestKilledAtAnyMoment(t *testing.T) {
	if dir := os.Getenv(victimDir); dir != "" {
		fmt.Fprintln(os.Stderr, victim(dir))
		os.Exit(3)
	}
	kills := 100
	if testing.Short() {
		kills = 10
	}
	for range 2 {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			killOften(t, kills)
		})
	}
}

func killOften(t *testing.T, kills int) {
	t.Helper()
	dir := t.TempDir()
	j := &judge{events: make(map[string]string), servers: make(map[string]bool), epochs: make(map[string]bool)}
	c := &checker{judge: j}
	var olds [][]byte
	var read int64 // of the ledger
	// Not before each has happened: on a busy machine few servers live until they restart.
	for n := 0; n < kills || !j.hasSeenAll() && n < 10*kills; n++ {
		if len(olds) > 0 && rand.IntN(3) == 0 {
			write(t, filepath.Join(dir, "state"), olds[rand.IntN(len(olds))])
		}
		killOnce(t, dir, c, 80*time.Millisecond*time.Duration(1+n/kills))
		for _, name := range []string{"state", "state.used"} {
			if data, err := os.ReadFile(filepath.Join(dir, name)); err == nil {
				olds = append(olds, data)
			}
		}
		olds = olds[max(0, len(olds)-6):]
		read = j.readLedger(t, filepath.Join(dir, "ledger"), read)
		if j.verdict != nil {
			t.Fatalf("after %d kills: %v", n+1, j.verdict)
		}
	}
	t.Logf("%d servers, %d epochs, %d events; %d positions covered, %d not",
		len(j.servers), len(j.epochs), len(j.events), j.resumed, j.resynced)
	if !j.hasSeenAll() {
		t.Error("each should have happened")
	}
}

// hasSeenAll reports whether servers were restarted as planned, and positions of earlier
// ones both covered and not.
func (j *judge) hasSeenAll() bool {
	return len(j.servers) > len(j.epochs) && j.resumed > 0 && j.resynced > 0
}

// killOnce starts a victim, lets the checker follow it and kills it after that time at
// most.
func killOnce(t *testing.T, dir string, c *checker, most time.Duration) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKilledAtAnyMoment$")
	cmd.Env = append(os.Environ(), victimDir+"="+dir)
	var problems bytes.Buffer
	cmd.Stderr = &problems
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err = cmd.Start(); err != nil {
		t.Fatal(err)
	}
	addr, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Errorf("a server did not start: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var following sync.WaitGroup
	following.Go(func() {
		for ctx.Err() == nil {
			c.follow(ctx, strings.TrimSpace(addr))
			time.Sleep(time.Millisecond) // leaves the processor to the victim
		}
	})
	time.Sleep(rand.N(most))
	_ = cmd.Process.Kill()
	err = cmd.Wait()
	cancel()
	following.Wait()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || !exit.Sys().(syscall.WaitStatus).Signaled() {
		t.Fatalf("a server ended by itself: %v\n%s", err, problems.Bytes())
	}
}

// readLedger reads on from where it was read to, and returns how far it got.
func (j *judge) readLedger(t *testing.T, path string, from int64) int64 {
	t.Helper()
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return 0
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close() //nolint:errcheck // it was only read
	text, err := io.ReadAll(io.NewSectionReader(f, from, 1<<30))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var epoch, data string
		var seq uint64
		if _, err := fmt.Sscan(line, &epoch, &seq, &data); err != nil {
			t.Fatalf("ledger: %q: %v", line, err)
		}
		j.published(epoch, seq, data)
	}
	return from + int64(len(text))
}
