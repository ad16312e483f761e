package main

import (
	"strings"
	"time"

	"github.com/prometheus/procfs"
)

// times are what a browser has used of the processors so far, without its processes
// that have ended.
type times struct {
	all  time.Duration // of all threads, in steps of 10 ms
	main time.Duration // of the main threads of its pages, exact
}

func (t times) since(before times) times {
	return times{all: t.all - before.all, main: t.main - before.main}
}

// memory is what the pages of a browser hold.
type memory struct {
	pss       uint64 // bytes, those shared with others in parts
	private   uint64 // bytes that no other process has
	renderers int    // processes
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

// timesOf returns zeros where there is no /proc.
func timesOf(pid int) (sum times) {
	for _, p := range family(pid) {
		stat, err := p.Stat()
		if err != nil {
			continue
		}
		sum.all += time.Duration(stat.CPUTime() * float64(time.Second))
		if !isRenderer(p) {
			continue
		}
		// The file of a process is that of its first thread.
		if main, err := p.Schedstat(); err == nil {
			sum.main += time.Duration(main.RunningNanoseconds) //nolint:gosec // not for centuries
		}
	}
	return sum
}
