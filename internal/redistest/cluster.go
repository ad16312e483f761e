package redistest

import (
	"context"
	"strings"
	"testing"
	"time"
)

// StartCluster starts a Cluster of three servers, and returns them when it is ready.
func StartCluster(tb testing.TB) []*Server {
	tb.Helper()
	const slots = 16384
	servers := make([]*Server, 3)
	for i := range servers {
		servers[i] = start(tb, &Server{tb: tb, bus: FreePort(tb)})
		from, to := i*slots/len(servers), (i+1)*slots/len(servers)-1
		servers[i].Do("CLUSTER", "ADDSLOTSRANGE", from, to)
		servers[i].Do("CLUSTER", "SET-CONFIG-EPOCH", i+1)
		if i > 0 {
			servers[0].Do("CLUSTER", "MEET", "127.0.0.1", servers[i].portText(), servers[i].bus)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for _, s := range servers {
		for !s.knowsCluster(len(servers)) {
			select {
			case <-ctx.Done():
				tb.Fatalf("redistest: the Cluster does not come about: %v", s.Do("CLUSTER", "INFO"))
			case <-time.After(20 * time.Millisecond): //nolint:forbidigo // asks again
			}
		}
	}
	return servers
}

// knowsCluster reports whether the server can say where each key is.
func (s *Server) knowsCluster(size int) bool {
	s.tb.Helper()
	info, _ := s.Do("CLUSTER", "INFO").(string)
	ranges, _ := s.Do("CLUSTER", "SLOTS").([]any)
	return strings.Contains(info, "cluster_state:ok") && len(ranges) == size
}
