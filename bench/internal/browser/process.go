package browser

import (
	"strings"
	"time"

	"github.com/prometheus/procfs"
)

// Times are what a browser has used of the processors so far, without its processes
// that have ended.
type Times struct {
	All  time.Duration // of all threads, in steps of 10 ms
	Main time.Duration // of the main threads of its pages, exact
}

// Since returns what was used after before.
func (t Times) Since(before Times) Times {
	return Times{All: t.All - before.All, Main: t.Main - before.Main}
}

// Memory is what the pages of a browser hold.
type Memory struct {
	PSS       uint64 // bytes, those shared with others in parts
	Private   uint64 // bytes that no other process has
	Renderers int    // processes
}

// family returns a process and those below it, none where there is no /proc.
func family(pid int) procfs.Procs {
	all, err := procfs.AllProcs()
	if err != nil {
		return nil
	}
	children := make(map[int]procfs.Procs)
	var found procfs.Procs
	for _, p := range all {
		stat, err := p.Stat()
		if err != nil {
			continue // it has ended
		}
		children[stat.PPID] = append(children[stat.PPID], p)
		if p.PID == pid {
			found = procfs.Procs{p}
		}
	}
	for i := 0; i < len(found); i++ {
		found = append(found, children[found[i].PID]...)
	}
	return found
}

// isRenderer reports whether a process is one in which Chromium runs pages, other
// than those of its own window.
func isRenderer(p procfs.Proc) bool {
	args, err := p.CmdLine()
	line := strings.Join(args, " ") // one piece anyway, as it was forked and not started
	return err == nil && strings.Contains(line, " --type=renderer ") && !strings.Contains(line, " --top-chrome-webui ")
}

// Times returns zeros where there is no /proc.
func (b *Browser) Times() (sum Times) {
	for _, p := range family(b.pid) {
		stat, err := p.Stat()
		if err != nil {
			continue
		}
		sum.All += time.Duration(stat.CPUTime() * float64(time.Second))
		if !isRenderer(p) {
			continue
		}
		// The file of a process is that of its first thread.
		if main, err := p.Schedstat(); err == nil {
			sum.Main += time.Duration(main.RunningNanoseconds) //nolint:gosec // not for centuries
		}
	}
	return sum
}
