package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/longwire/longwire/server"
	"github.com/longwire/longwire/stream"
	"github.com/longwire/longwire/wire"
)

const serveUsage = `Runs the demo server: live data of this host, a chat, and the page that shows both.

The first line on stdout is the address of the page; everything else goes to
stderr. SIGINT and SIGTERM drain it: /ready says no, clients are told to move and
closed over -drain-window, and come back to where they were; a second signal ends
it at once. /metrics is for Prometheus. Streams: host (a sample each second), chat,
and any name under test/, which only the fault endpoints publish to. A page
sends {"chat": "text"}, {"node": true}, answered by what -node says, {"echo": any}, or
{"refuse": {"code": "c", "reason": "r", "retryMs": 0}}, the last two with "delayMs": 0 to
10000 if wanted.

Usage: longwire serve [flags]

`

// config is what the flags of serve say.
type config struct {
	addr      string
	faults    bool
	verbose   bool
	node      string        // what the page calls this node, if there are several
	loginLife time.Duration // zero: a login has no end
	window    time.Duration // of the drain
	store     string        // URL of one that nodes share, empty for none
	server    server.Options
}

// parseServe reads the flags. For -h it prints the help on out and returns
// flag.ErrHelp.
func parseServe(args []string, out io.Writer) (config, error) {
	var c config
	var origins string
	fs := flag.NewFlagSet("longwire serve", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.StringVar(&c.addr, "addr", "127.0.0.1:8080", "listen on `host:port`; port 0 takes a free one")
	fs.BoolVar(&c.faults, "faults", false, "serve control endpoints under /faults/ that break the server on request, for tests and the\nbuttons of the page; on loopback addresses only, GET /faults/ lists them")
	fs.DurationVar(&c.server.Heartbeat, "heartbeat", wire.DefaultHeartbeat, "say something at least every `duration`; a client gives up after 2.5 of them in silence")
	fs.DurationVar(&c.server.Spread, "spread", wire.DefaultSpread, "clients that lost their session come back at random within this `duration`")
	fs.IntVar(&c.server.Log.Events, "log-events", stream.DefaultEvents, "keep this `number` of events of each stream for clients that come back")
	fs.Int64Var(&c.server.Log.Bytes, "log-bytes", stream.DefaultBytes, "keep this number of `bytes` of each stream")
	fs.DurationVar(&c.server.Log.Age, "log-age", stream.DefaultAge, "keep events for this `duration`")
	fs.DurationVar(&c.server.SessionLife, "session-life", 0, "remember a session without a connection for this `duration` (default: that of -log-age)")
	fs.DurationVar(&c.server.DrainGrace, "drain-grace", 0, "after SIGTERM go on accepting for this `duration`, until the balancer has noticed")
	fs.DurationVar(&c.window, "drain-window", 5*time.Second, "then close the connections over this `duration`; 0 means at once")
	fs.DurationVar(&c.server.RestartTime, "restart-time", time.Second, "let clients come back from that `duration` after the end of the drain on")
	fs.StringVar(&c.server.StateFile, "state", "", "after a drain keep streams, sessions and the answers to messages in this `file`, and take them\nover from it at the start: then a planned restart costs clients nothing (default: they are lost)")
	fs.StringVar(&c.store, "store", "", "share streams, sessions and the answers to messages with other nodes in the Redis 7 at this `URL`,\nredis://[user:password@]host[:port][/db], or rediss:// for TLS (default: the environment variable\n"+storeVariable+", which others on the machine cannot read; else the node is alone)")
	fs.IntVar(&c.server.Admission.Connections, "max-connections", 0, "turn away more than this `number` of connections (default 10,000)")
	fs.Float64Var(&c.server.Admission.Handshakes, "handshakes", 0, "turn away more than this `number` of handshakes a second (default 500)")
	fs.DurationVar(&c.server.HelloTimeout, "hello-timeout", wire.DefaultHelloTimeout, "wait for the first frame of a connection for this `duration`")
	fs.DurationVar(&c.server.WriteTimeout, "write-timeout", wire.DefaultWriteTimeout, "give up a connection that took no byte for this `duration`")
	fs.StringVar(&origins, "origins", "", "pages of these `origins` may connect too, such as https://example.com, separated by commas (default: only the own page)")
	fs.BoolVar(&c.server.NoOrigin, "no-origin", false, "accept WebSockets without an Origin header too: programs that are no browsers")
	fs.DurationVar(&c.loginLife, "login-life", 0, "a login expires after this `duration`; 0 means never")
	fs.StringVar(&c.node, "node", "", "tell the page that it is on the node of this `name`, where there are several")
	fs.BoolVar(&c.verbose, "v", false, "log details too")
	switch err := fs.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(out, serveUsage)
		fs.SetOutput(out)
		fs.PrintDefaults()
		return c, err
	case err != nil:
		return c, serveError(err)
	case fs.NArg() > 0:
		return c, serveError(fmt.Errorf("unexpected argument %q", fs.Arg(0)))
	}
	if err := checkBounds(fs); err != nil {
		return c, serveError(err)
	}
	if c.store == "" {
		c.store = os.Getenv(storeVariable)
	}
	if err := checkStore(c); err != nil {
		return c, serveError(err)
	}
	if origins != "" {
		c.server.Origins = strings.Split(origins, ",")
	}
	return c, nil
}

// checkBounds wants every number above zero, but for those of which zero says
// something.
func checkBounds(fs *flag.FlagSet) error {
	mayBeZero := map[string]bool{"login-life": true, "drain-grace": true, "drain-window": true}
	var err error
	fs.Visit(func(f *flag.Flag) {
		var n float64
		switch v := f.Value.(flag.Getter).Get().(type) {
		case time.Duration:
			n = float64(v)
		case int:
			n = float64(v)
		case int64:
			n = float64(v)
		case float64:
			n = v
		default:
			return
		}
		if !(n > 0 || n == 0 && mayBeZero[f.Name]) { // NaN is neither
			err = fmt.Errorf("invalid value %q for flag -%s: must be above zero", f.Value, f.Name)
		}
	})
	return err
}

// storeVariable is the environment variable that names the store, which is out of the
// list of processes: the URL may hold a password.
const storeVariable = "LONGWIRE_STORE"

// checkStore refuses what cannot be meant. Its errors do not repeat the URL.
func checkStore(c config) error {
	if c.store == "" {
		return nil
	}
	scheme, _, _ := strings.Cut(c.store, "://")
	switch {
	case scheme != "redis" && scheme != "rediss":
		return errors.New("flag -store: want a URL such as redis://127.0.0.1:6379")
	case c.server.StateFile != "":
		return errors.New("flag -state: not together with -store, which keeps all that is in it")
	}
	return nil
}

// storeName is the URL of a store without its user and parameters, which may hold
// secrets.
func storeName(store string) string {
	u, err := url.Parse(store)
	if store == "" || err != nil {
		return "memory"
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}

func serveError(err error) error {
	return usageError{fmt.Errorf("serve: %w (longwire serve -h lists the flags)", err)}
}

// serve runs the command until ctx ends.
func serve(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	c, err := parseServe(args, stdout)
	if err != nil {
		return err
	}
	level := slog.LevelInfo
	if c.verbose {
		level = slog.LevelDebug
	}
	log := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level}))
	return newSite(c, log).run(ctx, stdout)
}
