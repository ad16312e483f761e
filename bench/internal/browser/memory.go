//go:build !windows

package browser

// Memory returns zeros where there is no /proc.
func (b *Browser) Memory() (sum Memory) {
	for _, p := range family(b.pid) {
		if !isRenderer(p) {
			continue
		}
		if maps, err := p.ProcSMapsRollup(); err == nil {
			sum.PSS += maps.Pss
			sum.Private += maps.PrivateClean + maps.PrivateDirty
			sum.Renderers++
		}
	}
	return sum
}
