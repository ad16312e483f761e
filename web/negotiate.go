package web

import (
	"strconv"
	"strings"
)

const identity = "identity"

// choose picks the variant that an Accept-Encoding header asks for: the highest
// q, then the first in the list, whose last is identity (RFC 9110 section
// 12.5.3). Identity that the header does not name comes after whatever it names,
// and is sent as well when the header rules out everything: a browser can read
// it, and nothing at all helps nobody.
func choose(header string, variants []variant) variant {
	weights := parseAccept(header)
	best, bestQ := variants[len(variants)-1], 0.0
	for _, v := range variants {
		q, named := weights[v.coding]
		if !named {
			q, named = weights["*"]
		}
		if named && q > bestQ {
			best, bestQ = v, q
		}
	}
	return best
}

// parseAccept reads the codings of an Accept-Encoding header with their weights.
// A weight that is none counts as 0, so a broken header gets identity.
func parseAccept(header string) map[string]float64 {
	weights := map[string]float64{}
	for element := range strings.SplitSeq(header, ",") {
		coding, parameter, _ := strings.Cut(element, ";")
		coding = strings.ToLower(strings.TrimSpace(coding))
		if coding == "" {
			continue
		}
		q := 1.0
		if name, value, ok := strings.Cut(parameter, "="); ok && strings.EqualFold(strings.TrimSpace(name), "q") {
			parsed, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil || !(parsed >= 0 && parsed <= 1) {
				parsed = 0
			}
			q = parsed
		}
		weights[coding] = q
	}
	return weights
}
