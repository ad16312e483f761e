package main

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"strings"
	"testing"
)

func TestWrongCallsGetOneLineAndExitCode2(t *testing.T) {
	for _, tc := range []struct {
		name, args, want string
	}{
		{"unknown command", "server", `unknown command "server"`},
		{"unknown flag", "serve -port 1", "-port"},
		{"bad duration", "serve -heartbeat 15", `"15" for flag -heartbeat`},
		{"negative duration", "serve -spread -1s", `"-1s" for flag -spread`},
		{"zero", "serve -log-events 0", `"0" for flag -log-events`},
		{"negative login life", "serve -login-life -1s", "-login-life"},
		{"argument", "serve now", `"now"`},
		{"store of another kind", "serve -store http://x:secret@127.0.0.1", "-store: want a URL such as redis://"},
		{"two that keep the state", "serve -store redis://127.0.0.1 -state x", "-state: not together with -store"},
		{"faults for all", "serve -faults -addr 0.0.0.0:0", "-faults: refused"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			code := run(t.Context(), strings.Fields(tc.args), &stdout, &stderr)
			if strings.Contains(stderr.String(), "secret") {
				t.Errorf("a password is told: %s", &stderr)
			}
			if code != 2 || stdout.Len() > 0 || strings.Count(stderr.String(), "\n") != 1 || !strings.Contains(stderr.String(), tc.want) {
				t.Errorf("exit code %d, stdout %q, stderr %q; want 2 and one line with %q", code, &stdout, &stderr, tc.want)
			}
		})
	}
}

func TestNoCommandShowsTheUsage(t *testing.T) {
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), nil, &stdout, &stderr); code != 2 || stderr.String() != usage {
		t.Errorf("exit code %d, stderr %q", code, &stderr)
	}
}

func TestHelpDocumentsEveryFlag(t *testing.T) {
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), []string{"serve", "-h"}, &stdout, &stderr)
	if code != 0 || stderr.Len() > 0 {
		t.Fatalf("exit code %d, stderr %q", code, &stderr)
	}
	for _, want := range []string{"-addr host:port", `(default "127.0.0.1:8080")`, "-faults", "-heartbeat duration", "(default 15s)", "-spread", "(default 8s)", "-log-events number", "(default 1000)", "-login-life"} {
		if !strings.Contains(stdout.String(), want) {
			t.Errorf("help lacks %q:\n%s", want, &stdout)
		}
	}
}

func TestAnAddressInUseFailsWithItsName(t *testing.T) {
	taken, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), []string{"serve", "-addr", taken.Addr().String()}, &stdout, &stderr)
	if code != 1 || stdout.Len() > 0 || !strings.Contains(stderr.String(), taken.Addr().String()) {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, &stdout, &stderr)
	}
}

func TestServeEndsCleanlyWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := startServeUntil(t, ctx)
	c := s.connect(nil, "host")
	cancel()
	for {
		if _, err := c.read(); err != nil {
			break // startServeUntil checks that the command ended well
		}
	}
}

func TestHealthzAnswers(t *testing.T) {
	s := startServe(t)
	if status, body := s.request(http.MethodGet, "/healthz", nil); status != http.StatusOK || body != "ok\n" {
		t.Errorf("%d %q", status, body)
	}
}
