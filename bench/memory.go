//go:build !windows

package main

// memoryOf returns zeros where there is no /proc.
func memoryOf(pid int) (sum memory) {
	for _, p := range family(pid) {
		if !isRenderer(p) {
			continue
		}
		if maps, err := p.ProcSMapsRollup(); err == nil {
			sum.pss += maps.Pss
			sum.private += maps.PrivateClean + maps.PrivateDirty
			sum.renderers++
		}
	}
	return sum
}
