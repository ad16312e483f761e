package server_test

import (
	"cmp"
	"encoding/json"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/longwire/longwire/server"
	"github.com/longwire/longwire/stream"
)

// What operators get is held against what the server exports.
const (
	dashboardFile  = "../docs/grafana/longwire.json"
	alertsFile     = "../docs/alerts.yml"
	operationsFile = "../docs/OPERATIONS.md"
)

func readFile(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// vocabulary has, of each name that a query can use, the labels and their values.
type vocabulary map[string]map[string]map[string]bool

var (
	typeLine   = regexp.MustCompile(`^# TYPE (\w+) (\w+)$`)
	seriesLine = regexp.MustCompile(`^(\w+)(?:\{(.*)\})? \S+$`)
	labelPair  = regexp.MustCompile(`(\w+)="([^"]*)"`)

	metricName = regexp.MustCompile(`\b(?:longwire|process|go)_\w+`)
	selector   = regexp.MustCompile(`\b((?:longwire|process|go)_\w+)\{([^}]*)\}`)
	matcher    = regexp.MustCompile(`(\w+)\s*(?:=~|!~|!=|=)\s*"([^"]*)"`)
	grouping   = regexp.MustCompile(`\b(?:by|without|on|ignoring)\s*\(([^)]*)\)`)
	shortName  = regexp.MustCompile("`([a-z]+_[a-z_]+|)(\\{[^}]*\\})?`")
	legendName = regexp.MustCompile(`\{\{\s*(?:\$labels\.)?(\w+)\s*\}\}`)
)

// exportedVocabulary reads what a server exports.
func exportedVocabulary(t *testing.T) vocabulary {
	t.Helper()
	v := make(vocabulary)
	for line := range strings.SplitSeq(scrape(t, newServer(t).Metrics()), "\n") {
		if m := typeLine.FindStringSubmatch(line); m != nil && m[2] != "histogram" {
			v[m[1]] = make(map[string]map[string]bool)
		}
		if m := seriesLine.FindStringSubmatch(line); m != nil {
			if v[m[1]] == nil {
				v[m[1]] = make(map[string]map[string]bool) // name_bucket, name_sum, name_count
			}
			labels := v[m[1]]
			for _, pair := range labelPair.FindAllStringSubmatch(m[2], -1) {
				if labels[pair[1]] == nil {
					labels[pair[1]] = make(map[string]bool)
				}
				labels[pair[1]][pair[2]] = true
			}
		}
	}
	return v
}

// knowsLabel reports whether any metric has the label, or Prometheus gives it.
func (v vocabulary) knowsLabel(label string) bool {
	for _, labels := range v {
		if labels[label] != nil {
			return true
		}
	}
	return label == "instance"
}

// check looks at the names in a query.
func (v vocabulary) check(t *testing.T, where, query string) {
	t.Helper()
	names := metricName.FindAllString(query, -1)
	if len(names) == 0 {
		t.Errorf("%s: names no metric: %s", where, query)
	}
	for _, name := range names {
		if v[name] == nil {
			t.Errorf("%s: %s is not exported", where, name)
		}
	}
	for _, s := range selector.FindAllStringSubmatch(query, -1) {
		for _, m := range matcher.FindAllStringSubmatch(s[2], -1) {
			label, values := m[1], m[2]
			if label == "instance" {
				continue
			}
			for value := range strings.SplitSeq(values, "|") {
				if !v[s[1]][label][value] {
					t.Errorf("%s: %s has no %s=%q", where, s[1], label, value)
				}
			}
		}
	}
	for _, g := range grouping.FindAllStringSubmatch(query, -1) {
		v.checkLabels(t, where, strings.Split(g[1], ",")...)
	}
}

func (v vocabulary) checkLabels(t *testing.T, where string, labels ...string) {
	t.Helper()
	for _, label := range labels {
		if label = strings.TrimSpace(label); !v.knowsLabel(label) {
			t.Errorf("%s: no metric has the label %s", where, label)
		}
	}
}

// checkTexts looks at the labels that a legend or an annotation shows.
func (v vocabulary) checkTexts(t *testing.T, where string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		for _, m := range legendName.FindAllStringSubmatch(text, -1) {
			v.checkLabels(t, where, m[1])
		}
	}
}

type dashboard struct {
	SchemaVersion int    `json:"schemaVersion"`
	UID           string `json:"uid"`
	Templating    struct {
		List []struct {
			Name, Type, Definition string
		} `json:"list"`
	} `json:"templating"`
	Panels []struct {
		ID                       int
		Type, Title, Description string
		Datasource               struct{ UID string }
		GridPos                  struct{ X, Y, W, H int } `json:"gridPos"`
		Targets                  []struct {
			RefID, Expr, LegendFormat string
			Datasource                struct{ UID string }
		}
	} `json:"panels"`
}

func TestDashboardShowsWhatIsExported(t *testing.T) {
	var d dashboard
	if err := json.Unmarshal(readFile(t, dashboardFile), &d); err != nil {
		t.Fatal(err)
	}
	want(t, "schema version", d.SchemaVersion, 42)
	want(t, "variables", []string{d.Templating.List[0].Type, d.Templating.List[1].Name}, []string{"datasource", "instance"})
	v := exportedVocabulary(t)
	v.check(t, "variable instance", d.Templating.List[1].Definition)

	var rows []string
	shown := make(map[string]bool)
	ids := make(map[int]bool)
	taken := make(map[[2]int]string)
	for _, p := range d.Panels {
		if ids[p.ID] {
			t.Errorf("%s: the id %d is used twice", p.Title, p.ID)
		}
		ids[p.ID] = true
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" || x >= 24 {
					t.Fatalf("%s lies over %s, or beside the grid", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
		if p.Type == "row" {
			rows = append(rows, p.Title)
			continue
		}
		if p.Description == "" || p.Datasource.UID != "${datasource}" || len(p.Targets) == 0 {
			t.Errorf("%s: description, data source or query is missing", p.Title)
		}
		for _, q := range p.Targets {
			v.check(t, p.Title, q.Expr)
			v.checkTexts(t, p.Title, q.LegendFormat)
			if q.Datasource.UID != "${datasource}" {
				t.Errorf("%s: query %s has another data source", p.Title, q.RefID)
			}
			for _, s := range selector.FindAllString(q.Expr, -1) {
				if !strings.Contains(s, `instance=~"$instance"`) {
					t.Errorf("%s: %s is not of the nodes that were chosen", p.Title, s)
				}
			}
			for _, name := range metricName.FindAllString(q.Expr, -1) {
				shown[name] = true
			}
		}
	}
	want(t, "rows", rows, []string{"Overview", "Recoveries", "Refusals", "Streams and fan-out", "Messages", "Drain", "Store"})
	for _, name := range slices.Sorted(maps.Keys(v)) {
		if strings.HasPrefix(name, "longwire_") && !shown[name] && !shown[histogramOf(name)+"_bucket"] {
			t.Errorf("no panel shows %s", name)
		}
	}
}

// histogramOf is the histogram of a series of its count or sum.
func histogramOf(name string) string {
	return strings.TrimSuffix(strings.TrimSuffix(name, "_sum"), "_count")
}

type alerts struct {
	Groups []struct {
		Name  string
		Rules []struct {
			Alert       string
			Expr        string
			For         string
			Labels      map[string]string
			Annotations map[string]string
		}
	}
}

func TestAlertsAreExplained(t *testing.T) {
	var a alerts
	if err := yaml.Unmarshal(readFile(t, alertsFile), &a); err != nil {
		t.Fatal(err)
	}
	v := exportedVocabulary(t)
	sections := make(map[string]string)
	for section := range strings.SplitSeq(string(readFile(t, operationsFile)), "\n### ") {
		title, text, _ := strings.Cut(section, "\n")
		if strings.HasPrefix(title, "Longwire") {
			sections[title] = text
		}
	}
	for _, rule := range a.Groups[0].Rules {
		v.check(t, rule.Alert, rule.Expr)
		v.checkTexts(t, rule.Alert, rule.Annotations["summary"], rule.Annotations["description"])
		if rule.Annotations["summary"] == "" || rule.Annotations["description"] == "" {
			t.Errorf("%s: summary or description is missing", rule.Alert)
		}
		if !slices.Contains([]string{"critical", "warning", "info"}, rule.Labels["severity"]) {
			t.Errorf("%s: severity %q", rule.Alert, rule.Labels["severity"])
		}
		want(t, rule.Alert+": runbook", rule.Annotations["runbook_url"],
			"https://github.com/longwire/longwire/blob/main/docs/OPERATIONS.md#"+strings.ToLower(rule.Alert))
		for _, part := range []string{"Meaning", "Causes", "Look at", "Do"} {
			if !strings.Contains(sections[rule.Alert], "- **"+part+"**: ") {
				t.Errorf("%s: %s has no section with %q", rule.Alert, operationsFile, part)
			}
		}
		delete(sections, rule.Alert)
	}
	for title := range sections {
		t.Errorf("%s explains %s, which is no alert", operationsFile, title)
	}
}

func TestOperationsNameWhatThereIs(t *testing.T) {
	text := string(readFile(t, operationsFile))
	v := exportedVocabulary(t)
	for _, name := range metricName.FindAllString(text, -1) {
		if v[name] == nil && v[name+"_bucket"] == nil {
			t.Errorf("%s is not exported", name)
		}
	}
	for _, s := range selector.FindAllString(text, -1) {
		v.check(t, operationsFile, s)
	}
	for _, reason := range slices.Sorted(maps.Keys(v["longwire_handshakes_denied_total"]["reason"])) {
		if !strings.Contains(text, "`"+reason+"`") {
			t.Errorf("the reason %s is not explained", reason)
		}
	}
	_, codes, _ := strings.Cut(text, "\n## Close codes\n")
	for _, code := range slices.Sorted(maps.Keys(v["longwire_connections_closed_total"]["code"])) {
		if !strings.Contains(codes, code) {
			t.Errorf("the close code %s is not explained", code)
		}
	}
	_, limits, _ := strings.Cut(text, "\n## Limits\n")
	limits, _, _ = strings.Cut(limits, "\n## ")
	for line := range strings.Lines(limits) { // names without longwire_, and reasons alone
		cells := strings.Split(line, "|")
		for _, m := range shortName.FindAllStringSubmatch(cells[max(len(cells)-2, 0)], -1) {
			name := cmp.Or(m[1], "handshakes_denied_total")
			if v["longwire_"+name] == nil && v["longwire_"+name+"_bucket"] == nil {
				t.Errorf("limits: %s is not exported", name)
			}
			if m[2] != "" {
				v.check(t, "limits", "longwire_"+name+m[2])
			}
		}
	}
	for prefix, options := range map[string]any{"": server.Options{}, "Admission.": server.Admission{}, "Log.": stream.Limits{}} {
		for field := range reflect.TypeOf(options).Fields() {
			if !strings.Contains(text, "`"+prefix+field.Name+"`") && !strings.Contains(text, "`Options."+field.Name+"`") &&
				field.Name != "Admission" && field.Name != "Log" && field.Name != "Logger" {
				t.Errorf("the option %s%s is not mentioned", prefix, field.Name)
			}
		}
	}
	for _, link := range regexp.MustCompile(`\]\(#([\w-]+)\)`).FindAllStringSubmatch(text, -1) {
		if !slices.Contains(headings(text), link[1]) {
			t.Errorf("the link #%s leads nowhere", link[1])
		}
	}
}

// headings returns the anchors of a page.
func headings(text string) (anchors []string) {
	for _, m := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(text, -1) {
		anchor := regexp.MustCompile(`[^\w -]`).ReplaceAllString(strings.ToLower(m[1]), "")
		anchors = append(anchors, strings.ReplaceAll(anchor, " ", "-"))
	}
	return anchors
}
