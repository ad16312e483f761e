package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of CPU time in /proc on every Linux (proc_pid_stat(5), USER_HZ).
const tick = 10 * time.Millisecond

// cpuTime returns what a process and those below it have used so far, without those
// that have ended. ok is false where there is no /proc.
func cpuTime(pid int) (used time.Duration, ok bool) {
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil || len(files) == 0 {
		return 0, false
	}
	children := make(map[int][]int)
	ticks := make(map[int]int)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		id, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		// The name, in parentheses, may hold anything.
		fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		if err != nil || len(fields) < 13 {
			return 0, false
		}
		parent, errParent := strconv.Atoi(fields[1])
		user, errUser := strconv.Atoi(fields[11])
		system, errSystem := strconv.Atoi(fields[12])
		if errParent != nil || errUser != nil || errSystem != nil {
			return 0, false
		}
		children[parent] = append(children[parent], id)
		ticks[id] = user + system
	}
	sum := 0
	for left := []int{pid}; len(left) > 0; {
		id := left[len(left)-1]
		left = append(left[:len(left)-1], children[id]...)
		sum += ticks[id]
	}
	return time.Duration(sum) * tick, true
}
