package redisstore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/longwire/longwire/internal/pause"
	"github.com/longwire/longwire/server"
	"github.com/longwire/longwire/wire"
)

// store is one node's part in a store.
type store struct {
	o       Options
	so      server.StoreOptions
	log     *slog.Logger
	client  redis.UniversalClient // one of the two below
	single  *redis.Client
	cluster *redis.ClusterClient

	node       string // names this node in leases and records
	partitions []*partition

	// ctx ends with Close.
	ctx    context.Context //nolint:containedctx // belongs to the store, not to a call
	cancel context.CancelFunc
	wg     sync.WaitGroup
	reads  chan struct{} // room for the reads that run at once

	lifeMu sync.Mutex
	closed bool

	mu       sync.Mutex
	feeds    map[string]*feed // by name
	named    int              // of them
	sessions map[*session]struct{}
	running  map[string]*running // by the key of the records and message id

	renumbered, holes, corrupt atomic.Uint64
}

const (
	parallelReads = 16
	leaseLife     = 10 * time.Second
	beatInterval  = time.Second
	// staleAfter is when a silence is one: a beat and the time of one try.
	staleAfter = 3 * time.Second
)

func open(o Options, so server.StoreOptions, r *redis.UniversalOptions) (*store, error) {
	if so.Logger == nil {
		so.Logger = slog.Default()
	}
	s := &store{
		o: o, so: so, log: so.Logger, node: rand.Text(), reads: make(chan struct{}, parallelReads),
		feeds: make(map[string]*feed), sessions: make(map[*session]struct{}), running: make(map[string]*running),
	}
	ctx, cancel := context.WithTimeoutCause(context.Background(), o.Timeout, errTimeout)
	defer cancel()
	n, err := inspect(ctx, r, s.log)
	if err != nil {
		return nil, fmt.Errorf("redisstore: open: %w", err)
	}
	for i := range n {
		s.partitions = append(s.partitions, newPartition(o.Prefix, i))
	}
	r.OnConnect = s.onConnect
	s.client = redis.NewUniversalClient(r)
	switch c := s.client.(type) {
	case *redis.Client:
		s.single = c
	case *redis.ClusterClient:
		s.cluster = c
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	if err := insist(ctx, func() error { return s.prepare(ctx) }); err != nil {
		s.cancel()
		_ = s.client.Close() // there is an error already
		return nil, fmt.Errorf("redisstore: open: %w", err)
	}
	var sub *subscription
	for _, p := range s.partitions {
		if sub == nil || s.cluster != nil {
			sub = newSubscription(s)
		}
		p.sub = sub
	}
	s.wg.Go(s.beat)
	s.wg.Go(s.upkeep)
	return s, nil
}

// prepare loads the scripts and hears of the generations.
func (s *store) prepare(ctx context.Context) error {
	for _, p := range s.partitions {
		c, err := s.master(ctx, p)
		if err != nil {
			return err
		}
		if err := scriptProbe.Run(ctx, c, []string{p.prefix + "probe", p.prefix + "probe"}).Err(); err != nil {
			return err
		}
		for _, script := range loaded {
			if err := script.Load(ctx, c).Err(); err != nil {
				return err
			}
		}
		if err := s.connect(ctx, c, p); err != nil {
			return err
		}
	}
	// A subscription is confirmed, or refused, on its connection.
	ps := s.client.SSubscribe(ctx, s.partitions[0].prefix+"probe")
	defer ps.Close() //nolint:errcheck // it was for one question
	_, err := ps.Receive(ctx)
	return err
}

// onConnect is called for each new connection, before anything else is sent on it.
func (s *store) onConnect(ctx context.Context, c *redis.Conn) error {
	pipe := c.Pipeline()
	cmds := make([]*redis.Cmd, len(s.partitions))
	for i, p := range s.partitions {
		cmds[i] = scriptConnect.Eval(ctx, pipe, s.connectKeys(p), s.connectArgs(p)...)
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
	for i, p := range s.partitions {
		err := s.hear(p, cmds[i])
		if redis.HasErrorPrefix(err, "MOVED") || redis.HasErrorPrefix(err, "CLUSTERDOWN") || redis.HasErrorPrefix(err, "unknown command") {
			continue // of another node, or of a Sentinel
		}
		if err != nil {
			return fmt.Errorf("%w: %w", errConnect, err)
		}
	}
	return nil
}

var errConnect = errors.New("new connection")

func (s *store) connectKeys(p *partition) []string {
	return []string{p.genKey(), p.leaseKey(s.node)}
}

func (s *store) connectArgs(p *partition) []any {
	return []any{p.generation(), rand.Text()[:10], leaseLife.Milliseconds()}
}

// connect asks for the generation in force.
func (s *store) connect(ctx context.Context, c redis.Scripter, p *partition) error {
	return s.hear(p, scriptConnect.Run(ctx, c, s.connectKeys(p), s.connectArgs(p)...))
}

// hear takes the answer to connect.
func (s *store) hear(p *partition, cmd *redis.Cmd) error {
	reply, err := cmd.StringSlice()
	if err != nil {
		return err
	}
	gen, err := strconv.ParseUint(reply[0], 10, 64)
	if err != nil {
		return fmt.Errorf("generation: %w", err)
	}
	if p.learn(gen, reply[1]) {
		s.log.Warn("longwire: Redis is another server, or has lost something: streams are numbered anew", "partition", p.prefix)
		s.readAll(p)
	}
	return nil
}

// inspect returns how many partitions there are to be, and an error when Redis is not
// fit for a store.
func inspect(ctx context.Context, r *redis.UniversalOptions, log *slog.Logger) (partitions int, _ error) {
	try := func() error {
		cluster, err := look(ctx, r, log)
		if err == nil && cluster && !r.IsClusterMode {
			r.IsClusterMode = true
			_, err = look(ctx, r, log)
		}
		return err
	}
	if err := insist(ctx, try); err != nil {
		return 0, err
	}
	if r.IsClusterMode {
		return clusterPartitions, nil
	}
	return 1, nil
}

// insist tries what may be done twice until it is answered, or ctx ends. The error is
// then that of the last try that had the time for one.
func insist(ctx context.Context, try func() error) (last error) {
	for {
		err := try()
		if err == nil {
			return nil
		}
		if last == nil || ctx.Err() == nil {
			last = err
		}
		if outcomeOf(err) != unsent && !isLost(err) || pause.For(ctx, mostWait) != nil {
			return last
		}
	}
}

// isLost reports whether the connection has failed, or brought no answer in time.
func isLost(err error) bool {
	_, ok := errors.AsType[net.Error](err)
	return ok || errors.Is(err, io.EOF)
}

func look(ctx context.Context, r *redis.UniversalOptions, log *slog.Logger) (cluster bool, err error) {
	client := redis.NewUniversalClient(r)
	defer func() { err = errors.Join(err, client.Close()) }()
	c, ok := client.(*redis.ClusterClient)
	if !ok {
		info, err := client.Info(ctx).Result()
		if err != nil {
			return false, err
		}
		return field(info, "cluster_enabled") == "1", fit(info, log)
	}
	return true, c.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
		info, err := node.Info(ctx).Result()
		if err != nil {
			return err
		}
		return fit(info, log)
	})
}

func fit(info string, log *slog.Logger) error {
	version := field(info, "redis_version")
	major, _, _ := strings.Cut(version, ".")
	if n, err := strconv.Atoi(major); err != nil || n < 7 {
		return fmt.Errorf("version %q of Redis: must be 7.0 or later", version)
	}
	if role := field(info, "role"); role != "master" {
		return fmt.Errorf("role %q of Redis: must be master, a replica cannot be written to", role)
	}
	if policy := field(info, "maxmemory_policy"); policy != "noeviction" && field(info, "maxmemory") != "0" {
		log.Warn("longwire: Redis may evict what the store keeps; set maxmemory-policy to noeviction", "policy", policy)
	}
	return nil
}

// field returns what INFO says of a name.
func field(info, name string) string {
	_, rest, _ := strings.Cut(info, "\n"+name+":")
	value, _, _ := strings.Cut(rest, "\r")
	return value
}

func (s *store) Stale() time.Duration {
	var longest time.Duration
	for _, p := range s.partitions {
		longest = max(longest, p.silence())
	}
	if longest < staleAfter {
		return 0
	}
	return longest
}

func (s *store) Stats() server.StoreStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return server.StoreStats{
		Streams: s.named, Sessions: len(s.sessions),
		Renumbered: s.renumbered.Load(), Holes: s.holes.Load(), Corrupt: s.corrupt.Load(),
	}
}

// Close ends the work and gives the leases up.
func (s *store) Close() error {
	s.lifeMu.Lock()
	closed := s.closed
	s.closed = true
	s.lifeMu.Unlock()
	if closed {
		return nil
	}
	s.cancel()
	s.wg.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), staleAfter)
	defer cancel()
	for _, p := range s.partitions {
		c, err := s.master(ctx, p)
		if err == nil {
			err = c.Unlink(ctx, p.leaseKey(s.node)).Err()
		}
		if err != nil { // others find out when it has run out
			s.log.Warn("longwire: the lease of this node is not given up", "error", err)
			break
		}
	}
	return s.client.Close()
}

// spawn runs f in the background, unless the store is closed.
func (s *store) spawn(f func()) bool {
	s.lifeMu.Lock()
	defer s.lifeMu.Unlock()
	if s.closed {
		return false
	}
	s.wg.Go(f)
	return true
}

// ownName names a session's own stream.
func ownName(session string) string { return "@" + session }

// isOwn reports whether a stream is a session's own.
func isOwn(name string) bool { return !wire.ValidStream(name) }
