// Package godebug stands in for internal/godebug in the wasm: no setting is ever
// set, as a page has no GODEBUG. The original counts the use of each for
// runtime/metrics, and that brings in all of the runtime's metrics.
package godebug

// Setting is one that could be set in GODEBUG.
type Setting struct{}

// New returns the setting of this name.
func New(string) *Setting { return &Setting{} }

// Value is what it is set to: nothing.
func (*Setting) Value() string { return "" }

// IncNonDefault would count a use of a value other than the default.
func (*Setting) IncNonDefault() {}
