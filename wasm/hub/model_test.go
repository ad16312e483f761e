package hub_test

import (
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/longwire/longwire/wasm/hub"
)

// search plays schedules until one fails, and returns its seed; 0 when none does.
func search(t *testing.T, n uint64, without map[string]bool, rules hub.Rule) uint64 {
	t.Helper()
	var next, found atomic.Uint64
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for found.Load() == 0 {
				seed := next.Add(1)
				if seed > n {
					return
				}
				if failed, _ := play(t, seed, without, rules, false); failed != "" {
					found.CompareAndSwap(0, seed)
				}
			}
		})
	}
	wg.Wait()
	return found.Load()
}

// Each rule is needed: without it the model finds a schedule that goes wrong.
func TestEveryRuleIsNeeded(t *testing.T) {
	if !leaveRules {
		t.Skip("takes too long under the race detector")
	}
	for _, c := range []struct {
		name    string
		without string   // of the tabs, by their names in the model
		rule    hub.Rule // of the hub
	}{
		{name: "a tab keeps a position that an answer covers, epoch and head included", without: "cover"},
		{name: "a tab that drops a frame for its rank tells the hub", without: "tell"},
		{name: "a tab delivers nothing between a question and the answer", without: "silence"},
		{name: "a tab asks again at each announcement", without: "forget"},
		{name: "a tab behind the last number of a quiet stream asks", without: "quiet"},
		{name: "a message goes out again only while the server remembers it", without: "dedupe age"}, // tab and hub look
		{name: "a message that goes out again says how old it is", without: "age"},
		{name: "a message goes out again after any other hub", without: "again"},
		{name: "the holder of the lock outranks all others", rule: hub.RuleRaise},
		{name: "a number is used up when a tab falls silent", rule: hub.RuleLease},
		{name: "an answer is for those who asked from there", rule: hub.RuleAsked},
	} {
		t.Run(c.name, func(t *testing.T) {
			without := make(map[string]bool)
			for name := range strings.FieldsSeq(c.without) {
				without[name] = true
			}
			seed := search(t, 20_000, without, c.rule)
			if seed == 0 {
				t.Error("20,000 schedules went well without it")
			}
			t.Logf("schedule %d", seed)
		})
	}
}

func TestAnyScheduleOfTabsAndHubsIsLossless(t *testing.T) {
	if seed := search(t, schedules, nil, 0); seed > 0 {
		failed, trace := play(t, seed, nil, 0, true)
		t.Fatalf("seed %d: %s\n%s", seed, failed, strings.Join(trace, "\n"))
	}
}
