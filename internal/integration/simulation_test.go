package integration_test

import (
	"flag"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// soak runs the simulation for as long as one likes.
var soak = flag.Duration("soak", 0, "run the simulation for that long instead of a number of schedules")

// plan is one run, drawn before the bubble.
type plan struct {
	Users     []string // of the clients; "" is anonymous
	Log       int      // events that a log holds
	Snapshots snapshotMode
	Own       bool // sessions have a snapshot too
	Spread    time.Duration
	Heartbeat time.Duration
	Window    int
	Remember  int           // ids
	Dedupe    time.Duration // how long
	Seed      uint64        // of the clients' jitter
	Steps     []simStep
}

// snapshotMode is what the application's snapshot function does.
type snapshotMode string

const (
	noFunction  snapshotMode = "no function"
	positioned  snapshotMode = "positioned" // says what it contains
	implied     snapshotMode = "implied"    // contains what was published before it was asked
	slow        snapshotMode = "slow"       // positioned, and old when it arrives
	failing     snapshotMode = "failing"    // always
	slowAndNone snapshotMode = "slow, none" // says late that there is none
	sometimes   snapshotMode = "sometimes"  // positioned, or fails
)

// simStep is one verb with what it needs; the numbers mean what the verb makes of them.
type simStep struct {
	Do   string
	N, M int
}

// verbs, as often as they are to be drawn.
var verbs = []string{
	"publish", "publish", "publish", "publish", "publish", "burst", "publish own", "publish own",
	"send", "send", "send", "send", "send with deadline", "send with deadline",
	"settle", "settle", "time", "time", "time", "time", "time", "time",
	"cut", "cut one", "cut one", "refuse", "mute", "mute one", "mute one", "delay", "delay one", "roam", "roam", "flap", "flap",
	"disconnect", "disconnect", "crash", "close", "slow handlers",
	"subscribe", "subscribe", "unsubscribe", "resubscribe", "resubscribe", "resubscribe from",
	"kick", "kick", "now", "url", "authorize", "rerun",
}

func drawPlan(t *rapid.T) plan {
	users := [][]string{{"ada"}, {"ada"}, {"ada", "ada"}, {"ada", "ada"}, {"ada", "bob"}, {""}, {"", "ada"}}
	step := rapid.Custom(func(t *rapid.T) simStep {
		return simStep{
			Do: rapid.SampledFrom(verbs).Draw(t, "do"),
			N:  rapid.IntRange(0, 11).Draw(t, "n"),
			M:  rapid.IntRange(0, 11).Draw(t, "m"),
		}
	})
	memory := rapid.SampledFrom([]plan{
		{Remember: 10_000, Dedupe: 10 * time.Minute}, {Remember: 10_000, Dedupe: 10 * time.Second}, {Remember: 3, Dedupe: 10 * time.Second},
	}).Draw(t, "memory")
	return plan{
		Users:     rapid.SampledFrom(users).Draw(t, "users"),
		Log:       rapid.IntRange(5, 50).Draw(t, "log"),
		Snapshots: rapid.SampledFrom([]snapshotMode{noFunction, positioned, implied, slow, failing, slowAndNone, sometimes}).Draw(t, "snapshots"),
		Own:       rapid.Bool().Draw(t, "own"),
		Spread:    rapid.SampledFrom([]time.Duration{10 * time.Millisecond, time.Second, 8 * time.Second}).Draw(t, "spread"),
		Heartbeat: rapid.SampledFrom([]time.Duration{time.Second, 15 * time.Second, time.Minute}).Draw(t, "heartbeat"),
		Window:    rapid.SampledFrom([]int{1, 2, 32}).Draw(t, "window"),
		Remember:  memory.Remember,
		Dedupe:    memory.Dedupe,
		Seed:      rapid.Uint64().Draw(t, "seed"),
		Steps:     rapid.SliceOfN(step, 15, 80).Draw(t, "steps"),
	}
}

// Whatever happens between real clients and a real server: each event once and in
// order, or one gap said and bridged; each send settled once, its effect as it was
// said to be; and once nothing is in the way any more, everything comes to rest.
func TestAnyScheduleOfClientsAndServerIsLossless(t *testing.T) {
	checks(t, schedules)
	var first error // rapid shows only what it can reproduce
	t.Cleanup(func() {
		if t.Failed() && first != nil {
			t.Logf("the first failure, before it was made smaller: %v", first)
		}
	})
	for begun := time.Now(); ; {
		rapid.Check(t, func(rt *rapid.T) {
			p := drawPlan(rt)
			var err error
			synctest.Test(t, func(t *testing.T) {
				t.Helper()
				err = simulate(t, p)
			})
			if err != nil {
				if first == nil {
					first = err
				}
				rt.Fatal(err)
			}
		})
		if t.Failed() || time.Since(begun) >= *soak {
			return
		}
	}
}

// checks sets how many schedules rapid draws, unless the command line says so.
func checks(t *testing.T, n int) {
	t.Helper()
	const name = "rapid.checks"
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == name })
	if given {
		return
	}
	before := flag.Lookup(name).Value.String()
	t.Cleanup(func() { _ = flag.Set(name, before) })
	if err := flag.Set(name, strconv.Itoa(n)); err != nil {
		t.Fatal(err)
	}
}
