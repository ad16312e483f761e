package redisstore

import (
	"crypto/rand"
	"hash/fnv"
	"strconv"
	"sync"
	"time"
)

// clusterPartitions is into how many parts the keys fall in a Cluster. The keys of a
// part are of one hash slot, as those of one script must be.
const clusterPartitions = 16

// partition is a part of the keys, with a generation of its own.
type partition struct {
	index  int
	prefix string // of its keys
	sub    *subscription

	mu       sync.Mutex
	gen      uint64
	memory   string // id of the memory of message ids
	answered time.Time
}

func newPartition(prefix string, index int) *partition {
	return &partition{index: index, prefix: "{" + prefix + ":" + strconv.Itoa(index) + "}"}
}

func (p *partition) generation() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.gen
}

// learn notes the generation in force, and reports whether a known one is over. An
// answer that was overtaken by a newer one changes nothing.
func (p *partition) learn(gen uint64, memory string) (over bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answered = time.Now()
	if gen <= p.gen {
		return false
	}
	over = p.gen != 0
	p.gen, p.memory = gen, memory
	return over
}

// heard notes that the store has answered.
func (p *partition) heard() {
	p.mu.Lock()
	p.answered = time.Now()
	p.mu.Unlock()
}

func (p *partition) silence() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Since(p.answered)
}

func (p *partition) memoryID() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.memory
}

// Keys. A stream of a session is named "@" and its id: no named stream can be.
func (p *partition) genKey() string             { return p.prefix + "gen" }
func (p *partition) metaKey(name string) string { return p.prefix + "m:" + name }
func (p *partition) entriesKey(name string) string {
	return p.prefix + "e:" + name
}
func (p *partition) channel(name string) string  { return p.prefix + "c:" + name }
func (p *partition) sessionKey(id string) string { return p.prefix + "s:" + id }
func (p *partition) userKey(user string) string  { return p.prefix + "u:" + user }
func (p *partition) leaseKey(node string) string { return p.prefix + "n:" + node }

// recordKeys are those of the answers to messages: the user's, or an anonymous
// session's own.
func (p *partition) recordKeys(user, session string) (records, order string) {
	if user == "" {
		return p.prefix + "a:" + session, p.prefix + "b:" + session
	}
	return p.prefix + "d:" + user, p.prefix + "o:" + user
}

// epoch returns one that was never used. It begins with the generation.
func epoch(gen uint64) string {
	return strconv.FormatUint(gen, 36) + "." + rand.Text()[:10]
}

// newTag returns what tells an entry from any other: 65 random bits.
func newTag() string { return rand.Text()[:13] }

// byName returns the partition of a named stream, or of a user.
func (s *store) byName(name string) *partition {
	h := fnv.New32a()
	_, _ = h.Write([]byte(name))                                  // never fails
	return s.partitions[int(h.Sum32()%uint32(len(s.partitions)))] //nolint:gosec // at most 16
}

// letters are those of a session id; the last one names the partition.
const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"

func newSessionID(p *partition) string { return rand.Text() + letters[p.index:p.index+1] }

// bySession returns the partition that a session's id names, or nil.
func (s *store) bySession(id string) *partition {
	if len(id) < 2 {
		return nil
	}
	for _, p := range s.partitions {
		if letters[p.index] == id[len(id)-1] {
			return p
		}
	}
	return nil
}
