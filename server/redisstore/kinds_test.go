package redisstore_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/longwire/longwire/internal/redistest"
	"github.com/longwire/longwire/server"
	"github.com/longwire/longwire/server/redisstore"
	"github.com/longwire/longwire/server/storetest"
)

func TestStoreOnACluster(t *testing.T) {
	t.Parallel()
	servers := redistest.StartCluster(t)
	var used [3]bool
	for _, url := range []string{
		servers[0].URL() + "?addr=" + servers[1].Addr() + "&addr=" + servers[2].Addr(),
		servers[2].URL(), // a lone address is recognized
	} {
		storetest.Run(t, fresh(redisstore.Options{URL: url}))
	}
	t.Cleanup(func() {
		for i, s := range servers {
			used[i] = strings.Contains(s.Do("INFO", "commandstats").(string), "cmdstat_xadd")
		}
		if used != [3]bool{true, true, true} {
			t.Errorf("nodes with streams: %v, want all", used)
		}
	})
}

// A partition moves to another node of the Cluster while it is in use. That one is a
// server of its own, so that there is a generation of its own: one gap. What is
// published before a node has noticed is on either side of it, or in it.
func TestMovedPartition(t *testing.T) {
	t.Parallel()
	servers := redistest.StartCluster(t)
	a, b := node(t, servers[0].URL()), node(t, servers[1].URL())
	f := follow(t, b)
	publish(t, a, "s", 1, 3)
	f.want(t, numbers(1, 3)...)
	m := move(t, servers, "m:s")
	published := make(chan struct{})
	go func() {
		defer close(published)
		publish(t, a, "s", 4, 30)
	}()
	m.finish(t)
	<-published
	f.until(t, func(got []string) bool { return slices.Contains(got, gap) })
	publish(t, a, "s", 31, 31)
	f.until(t, func(got []string) bool { return got[len(got)-1] == "31" })
	got := f.got()
	i := slices.Index(got, gap)
	before, after := got[:i], got[i+1:]
	if !slices.Equal(before, numbers(1, i)) || !slices.Equal(after, numbers(32-len(after), 31)) {
		t.Errorf("got %q, want the first, one gap and the last", got)
	}
}

// The beat finds a partition that has moved while nobody used it.
func TestMovedIdlePartition(t *testing.T) {
	t.Parallel()
	servers := redistest.StartCluster(t)
	node(t, servers[0].URL())
	m := move(t, servers, "{t:0}gen")
	m.finish(t)
	for range 3 { // a new connection renews the lease as well
		m.to.Do(append([]any{"UNLINK"}, m.to.Do("KEYS", "{t:0}n:*").([]any)...)...)
		soon(t, "the lease is renewed", func() bool { return len(m.to.Do("KEYS", "{t:0}n:*").([]any)) == 1 })
	}
}

// slotMove is one of a slot to another node of a Cluster.
type slotMove struct {
	from, to, third *redistest.Server
	slot, id        any // of the other node
}

// move begins to move the slot of the key whose name ends so.
func move(t *testing.T, servers []*redistest.Server, suffix string) slotMove {
	t.Helper()
	for i, s := range servers {
		keys, ok := s.Do("KEYS", "*"+suffix).([]any)
		if !ok || len(keys) != 1 {
			continue
		}
		m := slotMove{from: s, to: servers[(i+1)%3], third: servers[(i+2)%3], slot: s.Do("CLUSTER", "KEYSLOT", keys[0])}
		m.id = m.to.Do("CLUSTER", "MYID")
		m.to.Do("CLUSTER", "SETSLOT", m.slot, "IMPORTING", s.Do("CLUSTER", "MYID"))
		m.from.Do("CLUSTER", "SETSLOT", m.slot, "MIGRATING", m.id)
		return m
	}
	t.Fatalf("no key ends with %q", suffix)
	return slotMove{}
}

// finish moves the keys, and then the slot.
func (m slotMove) finish(t *testing.T) {
	t.Helper()
	host, port, err := net.SplitHostPort(m.to.Addr())
	if err != nil {
		t.Fatal(err)
	}
	for {
		keys := m.from.Do("CLUSTER", "GETKEYSINSLOT", m.slot, 100).([]any)
		if len(keys) == 0 {
			break
		}
		m.from.Do(append([]any{"MIGRATE", host, port, "", 0, 5000, "REPLACE", "KEYS"}, keys...)...)
	}
	for _, s := range []*redistest.Server{m.to, m.from, m.third} {
		s.Do("CLUSTER", "SETSLOT", m.slot, "NODE", m.id)
	}
}

// What the store needs of an ACL user is what the package's documentation says.
func TestACLUser(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	r.Do("ACL", "SETUSER", "wire", "on", ">s3cret", "~{t:*", "&{t:*", "-@all", "+@read", "+@write", "+@pubsub",
		"+@scripting", "+@connection", "+info", "+time", "-@dangerous", "+info")
	a := node(t, "redis://wire:s3cret@"+r.Addr())
	f := follow(t, a)
	publish(t, a, "s", 1, 3)
	f.want(t, numbers(1, 3)...)
	c := attach(t, a, "", "u", 0, nobody)
	admit(t, c, "1")
	c.Settle("1", yes)
	if n, err := a.PublishTo(t.Context(), "u", []byte("1")); n != 1 || err != nil {
		t.Errorf("PublishTo = %d, %v", n, err)
	}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	cert, key, pool := certificate(t)
	r := redistest.StartTLS(t, &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12},
		"--tls-cert-file", cert, "--tls-key-file", key, "--tls-auth-clients", "no")
	a := node(t, r.URL(), func(o *redisstore.Options, _ *server.StoreOptions) {
		o.TLS = &tls.Config{RootCAs: pool, ServerName: "127.0.0.1", MinVersion: tls.VersionTLS12}
	})
	f := follow(t, a)
	publish(t, a, "s", 1, 3)
	f.want(t, numbers(1, 3)...)
	wantRefusal(t, redisstore.Options{URL: r.URL()}, "unknown authority")
}

// certificate makes one for 127.0.0.1, which is its own authority.
func certificate(t *testing.T) (cert, key string, pool *x509.CertPool) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for name, block := range map[string]*pem.Block{
		cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "EC PRIVATE KEY", Bytes: keyDER},
	} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pool = x509.NewCertPool()
	pool.AppendCertsFromPEM(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	return cert, key, pool
}

func TestSentinel(t *testing.T) {
	t.Parallel()
	primary, replica := redistest.Start(t), redistest.Start(t)
	host, port, _ := net.SplitHostPort(primary.Addr())
	replica.Do("REPLICAOF", host, port)
	storetest.Eventually(t, "the replica has synchronized", func() bool {
		return strings.Contains(replica.Do("INFO", "replication").(string), "master_link_status:up")
	})
	sentinel := redistest.StartSentinel(t, "main", primary)
	storetest.Eventually(t, "Sentinel knows the replica", func() bool {
		replicas, _ := sentinel.Do("SENTINEL", "REPLICAS", "main").([]any)
		return len(replicas) == 1
	})
	a := node(t, sentinel.URL()+"?master_name=main")
	f := follow(t, a)
	publish(t, a, "s", 1, 3)
	f.want(t, numbers(1, 3)...)
	awaitHead(t, replica, "3")
	primary.Stop()
	storetest.Eventually(t, "the replica is promoted", func() bool {
		return strings.Contains(replica.Do("INFO", "replication").(string), "role:master")
	})
	storetest.Eventually(t, "events are published again", func() bool {
		_, err := a.Publish(t.Context(), "s", []byte("4"))
		return err == nil
	})
	f.want(t, "1", "2", "3", gap, "4")
}
