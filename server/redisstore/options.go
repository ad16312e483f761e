package redisstore

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/longwire/longwire/server"
)

// Options say where the store is.
type Options struct {
	// URL is of the form redis://user:password@host:port/db, or rediss:// for TLS. With
	// addr=host:port, once or more often, it names further nodes of a Cluster; with
	// master_name=name the hosts are Sentinels, and username and password those of the
	// server behind them. A lone node of a Cluster is recognized as such. Other
	// parameters are those of go-redis: read_timeout=1s, pool_size=50 and so on.
	URL string
	// TLS replaces what a rediss:// URL stands for, to name authorities or a
	// certificate. nil: the system's authorities, and the host of the URL.
	TLS *tls.Config
	// Prefix begins the names of all keys: {longwire:0}gen, say. Stores that share a
	// Redis need different ones. Default "longwire".
	Prefix string
	// Timeout is how long calls wait for a Redis that does not answer, unless their
	// context ends before. A publish whose context has a deadline waits for that
	// instead. Default 5 s.
	Timeout time.Duration
}

const (
	defaultPrefix  = "longwire"
	defaultTimeout = 5 * time.Second
	// Of one try, so that there is time for others.
	defaultDialTimeout = 2 * time.Second
	defaultReadTimeout = 2 * time.Second
)

// Open returns what opens a store, for server.Options.Store. The store is opened when
// Redis has answered, and is one to keep to: see the package's comment.
func Open(o Options) func(server.StoreOptions) (server.Store, error) {
	return func(so server.StoreOptions) (server.Store, error) {
		o := o
		if o.Prefix == "" {
			o.Prefix = defaultPrefix
		}
		if o.Timeout == 0 {
			o.Timeout = defaultTimeout
		}
		if strings.ContainsAny(o.Prefix, "{}") {
			return nil, fmt.Errorf("redisstore: Options.Prefix: %q: must not contain braces", o.Prefix)
		}
		if o.Timeout < 0 {
			return nil, fmt.Errorf("redisstore: Options.Timeout: %v: must not be negative", o.Timeout)
		}
		u, err := o.parse()
		if err != nil {
			return nil, err
		}
		s, err := open(o, so, u)
		if err != nil {
			return nil, err
		}
		return s, nil
	}
}

// parse returns the client's options. Errors do not repeat the URL, which has a
// password in it.
func (o *Options) parse() (*redis.UniversalOptions, error) {
	u, err := url.Parse(o.URL)
	if err != nil {
		if wrapped, ok := errors.AsType[*url.Error](err); ok {
			err = wrapped.Err
		}
		return nil, fmt.Errorf("redisstore: Options.URL: %w", err)
	}
	var r *redis.UniversalOptions
	switch q := u.Query(); {
	case q.Has("master_name"):
		r, err = parseSentinel(o.URL)
	case q.Has("addr"):
		r, err = parseCluster(o.URL)
	default:
		r, err = parseSingle(o.URL)
	}
	if err != nil {
		return nil, fmt.Errorf("redisstore: Options.URL: %w", err)
	}
	if o.TLS != nil && r.TLSConfig != nil {
		r.TLSConfig = o.TLS.Clone()
	}
	// The client would send again what may have had its effect.
	r.MaxRetries = -1
	r.DialerRetries = 1
	r.ContextTimeoutEnabled = true
	if r.DialTimeout == 0 {
		r.DialTimeout = defaultDialTimeout
	}
	if r.ReadTimeout == 0 {
		r.ReadTimeout = defaultReadTimeout
	}
	return r, nil
}

func parseSingle(text string) (*redis.UniversalOptions, error) {
	c, err := redis.ParseURL(text)
	if err != nil {
		return nil, err
	}
	return &redis.UniversalOptions{
		Addrs: []string{c.Addr}, DB: c.DB, Username: c.Username, Password: c.Password, TLSConfig: c.TLSConfig,
		ClientName: c.ClientName, Protocol: c.Protocol, DialTimeout: c.DialTimeout, ReadTimeout: c.ReadTimeout, WriteTimeout: c.WriteTimeout,
		PoolFIFO: c.PoolFIFO, PoolSize: c.PoolSize, PoolTimeout: c.PoolTimeout, MinIdleConns: c.MinIdleConns, MaxIdleConns: c.MaxIdleConns,
		MaxActiveConns: c.MaxActiveConns, ConnMaxIdleTime: c.ConnMaxIdleTime, ConnMaxLifetime: c.ConnMaxLifetime,
	}, nil
}

func parseCluster(text string) (*redis.UniversalOptions, error) {
	c, err := redis.ParseClusterURL(text)
	if err != nil {
		return nil, err
	}
	return &redis.UniversalOptions{
		IsClusterMode: true,
		Addrs:         c.Addrs, Username: c.Username, Password: c.Password, TLSConfig: c.TLSConfig,
		ClientName: c.ClientName, Protocol: c.Protocol, DialTimeout: c.DialTimeout, ReadTimeout: c.ReadTimeout, WriteTimeout: c.WriteTimeout,
		PoolFIFO: c.PoolFIFO, PoolSize: c.PoolSize, PoolTimeout: c.PoolTimeout, MinIdleConns: c.MinIdleConns, MaxIdleConns: c.MaxIdleConns,
		MaxActiveConns: c.MaxActiveConns, ConnMaxIdleTime: c.ConnMaxIdleTime, ConnMaxLifetime: c.ConnMaxLifetime,
	}, nil
}

func parseSentinel(text string) (*redis.UniversalOptions, error) {
	c, err := redis.ParseFailoverURL(text)
	if err != nil {
		return nil, err
	}
	return &redis.UniversalOptions{
		MasterName: c.MasterName, SentinelUsername: c.SentinelUsername, SentinelPassword: c.SentinelPassword,
		Addrs: c.SentinelAddrs, DB: c.DB, Username: c.Username, Password: c.Password, TLSConfig: c.TLSConfig,
		ClientName: c.ClientName, Protocol: c.Protocol, DialTimeout: c.DialTimeout, ReadTimeout: c.ReadTimeout, WriteTimeout: c.WriteTimeout,
		PoolFIFO: c.PoolFIFO, PoolSize: c.PoolSize, PoolTimeout: c.PoolTimeout, MinIdleConns: c.MinIdleConns, MaxIdleConns: c.MaxIdleConns,
		MaxActiveConns: c.MaxActiveConns, ConnMaxIdleTime: c.ConnMaxIdleTime, ConnMaxLifetime: c.ConnMaxLifetime,
	}, nil
}

// master returns the client of the node that a partition is on.
func (s *store) master(ctx context.Context, p *partition) (*redis.Client, error) {
	if s.cluster == nil {
		return s.single, nil
	}
	c, err := s.cluster.MasterForKey(ctx, p.genKey())
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNoMaster, err)
	}
	return c, nil
}

var errNoMaster = errors.New("no node of the Cluster is known for a key")

// relocate has a Cluster say again where its partitions are, soon. It is not waited for.
func (s *store) relocate(ctx context.Context) {
	if s.cluster != nil {
		s.cluster.ReloadState(ctx)
	}
}
