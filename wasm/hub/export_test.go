package hub

// Rules that a test can leave out.
const (
	RuleRaise = ruleRaise
	RuleLease = ruleLease
	RuleAsked = ruleAsked
)

// Rule is one that Without leaves out.
type Rule = rule

// Without leaves rules out.
func (h *Hub) Without(r Rule) { h.without |= r }
