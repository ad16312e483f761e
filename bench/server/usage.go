//go:build linux

package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Usage is the CPU time of a process.
type Usage struct {
	User, System time.Duration
}

func (u Usage) total() time.Duration { return u.User + u.System }

func (u Usage) since(before Usage) Usage {
	return Usage{User: u.User - before.User, System: u.System - before.System}
}

// usageNow is what this process has used so far.
func usageNow() (Usage, error) {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return Usage{}, fmt.Errorf("getrusage: %w", err)
	}
	return Usage{User: time.Duration(r.Utime.Nano()), System: time.Duration(r.Stime.Nano())}, nil
}

// Memory is what a process holds, in bytes.
type Memory struct {
	RSS   int64 // resident, as the kernel counts it
	Heap  int64 // of it spans of the heap
	Stack int64 // and of goroutines
}

// memoryNow measures this process, after it has given back what it can if free.
func memoryNow(free bool) (Memory, error) {
	if free {
		// What the first collection leaves to sync.Pools and finalizers goes with the
		// second.
		runtime.GC()
		debug.FreeOSMemory()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	// The counters of /proc/self/statm lag behind, these do not.
	text, err := os.ReadFile("/proc/self/smaps_rollup")
	if err != nil {
		return Memory{}, err
	}
	for line := range bytes.Lines(text) {
		fields := strings.Fields(string(line))
		if len(fields) == 3 && fields[0] == "Rss:" {
			kb, err := strconv.ParseInt(fields[1], 10, 64)
			return Memory{RSS: kb << 10, Heap: int64(m.HeapInuse), Stack: int64(m.StackInuse)}, err //nolint:gosec // sizes
		}
	}
	return Memory{}, fmt.Errorf("smaps_rollup: no Rss in %q", text)
}

// busyTime is how long the machine's cores have worked since it started, or 0 where
// that is not told.
func busyTime() time.Duration {
	file, err := os.Open("/proc/stat")
	if err != nil {
		return 0
	}
	defer file.Close() //nolint:errcheck // only read
	line, err := bufio.NewReader(file).ReadString('\n')
	if err != nil {
		return 0
	}
	const tick = 10 * time.Millisecond // proc_stat(5), USER_HZ
	var sum time.Duration
	for i, field := range strings.Fields(line) {
		// cpu user nice system idle iowait irq softirq steal guest guest_nice, where
		// user contains guest.
		if n, err := strconv.Atoi(field); err == nil && i <= 8 && i != 4 && i != 5 {
			sum += time.Duration(n) * tick
		}
	}
	return sum
}
