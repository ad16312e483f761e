package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/redis/go-redis/v9/logging" //nolint:depguard // its log is that of the whole process

	"github.com/longwire/longwire/cmd/longwire/internal/faults"
	"github.com/longwire/longwire/server"
	"github.com/longwire/longwire/server/redisstore"
	"github.com/longwire/longwire/web"
)

const (
	chatLines   = 50
	hostSamples = 60

	shutdownTime = time.Second     // for requests in flight
	goodbyeTime  = 6 * time.Second // for close handshakes after the window of a drain
	relistenTime = 5 * time.Second // for the address to become free again
)

// A site is the whole demo: the application's data, and one server after the
// other on the same address.
type site struct {
	config config
	log    *slog.Logger
	node   string          // tells this process from others that share its store
	faults *faults.Control // nil without the flag
	host   feed
	chat   feed
	page   http.Handler
	failed chan error         // a server ended by itself
	again  chan time.Duration // a restart: how long to stay down; at most one is under way
	work   sync.WaitGroup     // goroutines of the site
	store  server.Store       // of the last server, if it is shared

	mu sync.Mutex
	up *instance // nil while it is down
}

// An instance is what a crash takes away.
type instance struct {
	listener net.Listener
	http     *http.Server
	ws       *server.Server
	served   chan struct{} // closed when the listener is no longer accepted from
}

func newSite(c config, log *slog.Logger) *site {
	s := &site{
		config: c,
		log:    log,
		node:   rand.Text(),
		host:   feed{stream: "host", keep: hostSamples},
		chat:   feed{stream: "chat", keep: chatLines},
		page:   web.Handler(),
		failed: make(chan error, 1),
		again:  make(chan time.Duration, 1),
	}
	if c.faults {
		s.faults = faults.New(log)
	}
	return s
}

// run serves until ctx ends, and then says goodbye to who is connected.
func (s *site) run(ctx context.Context, stdout io.Writer) error {
	ws, err := s.newServer() //nolint:contextcheck // it ends by Close
	switch {
	case err != nil && s.config.store != "":
		return fmt.Errorf("serve: flag -store: %w", err)
	case err != nil:
		return serveError(err)
	}
	listener, err := s.listen(ctx, s.config.addr)
	if err != nil {
		return errors.Join(err, ws.Close())
	}
	address := listener.Addr().String()
	fmt.Fprintf(stdout, "http://%s/\n", address)
	s.log.Info("serving", "addr", address, "faults", s.config.faults, "store", storeName(s.config.store), "node", s.node)
	s.start(listener, ws)

	ctx, cancel := context.WithCancel(ctx)
	defer s.work.Wait()
	defer cancel()
	s.work.Go(func() { sampleHost(ctx, &s.host, s.node, s.log) })
	for err == nil && ctx.Err() == nil {
		select {
		case <-ctx.Done():
			s.log.Info("stopping")
		case err = <-s.failed:
		case down := <-s.again:
			err = s.startAgain(ctx, address, down)
		}
	}
	if ctx.Err() != nil {
		err = nil // what failed was cut short
	}
	return errors.Join(err, s.stop(context.WithoutCancel(ctx)))
}

func (s *site) listen(ctx context.Context, addr string) (net.Listener, error) {
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("serve: flag -addr: %w", err)
	}
	if tcp, ok := listener.Addr().(*net.TCPAddr); s.faults != nil && ok && !tcp.IP.IsLoopback() {
		err := fmt.Errorf("flag -faults: refused on %s: anyone could stop the server; listen on a loopback address such as 127.0.0.1:8080", listener.Addr())
		return nil, serveError(errors.Join(err, listener.Close()))
	}
	return listener, nil
}

func (s *site) newServer() (*server.Server, error) {
	options := s.config.server
	options.Logger = s.log
	options.Authenticate = s.authenticate
	options.Authorize = authorize
	options.OnMessage = s.onMessage
	if s.config.store != "" {
		logging.Disable() // the store says what matters, once, in the log of the server
		open := redisstore.Open(redisstore.Options{URL: s.config.store})
		options.Store = func(o server.StoreOptions) (store server.Store, err error) {
			s.store, err = open(o)
			return s.store, err
		}
	}
	options.Snapshot = func(ctx context.Context, stream string) (server.Snapshot, error) {
		switch stream {
		case s.host.stream:
			return s.host.snapshot(ctx)
		case s.chat.stream:
			return s.chat.snapshot(ctx)
		}
		return server.Snapshot{}, server.ErrNoSnapshot
	}
	if s.faults != nil {
		options.Authenticate = s.faults.Authenticate(options.Authenticate)
		options.OnMessage = s.faults.OnMessage(options.OnMessage)
	}
	return server.New(options)
}

// start serves ws on the listener, in goroutines of the site.
func (s *site) start(listener net.Listener, ws *server.Server) {
	in := &instance{ws: ws, listener: listener, served: make(chan struct{})}
	in.http = &http.Server{
		Handler:           s.routes(ws),
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	if s.faults != nil {
		in.listener = s.faults.Listener(listener)
		in.http.ConnContext = s.faults.ConnContext
	}
	s.host.attach(ws, s.store)
	s.chat.attach(ws, s.store)
	s.mu.Lock()
	s.up = in
	s.mu.Unlock()
	s.work.Go(func() {
		err := in.http.Serve(in.listener)
		close(in.served)
		if !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
			select {
			case s.failed <- fmt.Errorf("serve: %w", err):
			default: // the first is enough
			}
		}
	})
}

func (s *site) routes(ws *server.Server) http.Handler {
	var socket, probe http.Handler = ws, ws.Probe()
	mux := http.NewServeMux()
	if s.faults != nil {
		socket, probe = s.faults.Upgrades(socket), s.faults.Probes(probe)
		mux.Handle("/faults/", s.faults.Handler(s))
	} else {
		mux.Handle("/faults/", http.NotFoundHandler())
	}
	mux.Handle("/ws", socket)
	mux.Handle("/probe", probe)
	mux.HandleFunc("/login", s.serveLogin)
	mux.HandleFunc("POST /logout", s.serveLogout)
	mux.Handle("/ready", ws.Ready())
	mux.Handle("/metrics", ws.Metrics())
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "ok")
	})
	mux.Handle("/", s.page)
	// Lets through GET, and so every upgrade: those the server judges itself.
	return http.NewCrossOriginProtection().Handler(mux)
}

// take returns the instance that is up, if there is one, and leaves none.
func (s *site) take() *instance {
	s.mu.Lock()
	defer s.mu.Unlock()
	in := s.up
	s.up = nil
	if in != nil {
		s.host.attach(nil, nil)
		s.chat.attach(nil, nil)
	}
	return in
}

// stop ends the server politely: the clients are moved away and closed while the
// listener still answers, the state is saved if that is wanted, then the requests in
// flight get some time.
func (s *site) stop(ctx context.Context) error {
	s.mu.Lock()
	in := s.up
	s.mu.Unlock()
	if in == nil {
		return nil
	}
	if s.faults != nil {
		s.faults.Reset()
	}
	drainCtx, cancel := context.WithTimeout(ctx, s.config.server.DrainGrace+s.config.window+goodbyeTime)
	defer cancel()
	report, err := in.ws.Drain(drainCtx, s.config.window)
	if report.Forced > 0 {
		err = fmt.Errorf("drain: %d of %d connections were dropped at the end of the time", report.Forced, report.Connections)
	}
	s.take()
	err = errors.Join(err, in.listener.Close(), in.ws.Close())
	if s.config.server.StateFile != "" {
		err = errors.Join(err, in.ws.SaveState())
	}
	ctx, cancel = context.WithTimeout(ctx, shutdownTime)
	defer cancel()
	if in.http.Shutdown(ctx) != nil {
		err = errors.Join(err, in.http.Close())
	}
	return err
}
