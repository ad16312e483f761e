// Package memnet is a network in memory for tests: a listener, a dialer, and
// verbs that break connections the way real networks do.
//
// Nothing in it waits on anything but a sync.Cond or a channel, so it works in a
// testing/synctest bubble; create the Network inside the bubble that uses it.
package memnet

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"
)

// backlog is how many dialled connections wait for Accept before a dial blocks.
const backlog = 128

// Network is one server address and everything that was dialled to it. All
// methods are safe for concurrent use.
type Network struct {
	mu       sync.Mutex
	listener *listener
	links    map[*Link]struct{} // those of which an end is still open
	refuse   bool
	toClient bool // muted, for links to come
	toServer bool
	dials    int

	latencyToClient, latencyToServer time.Duration // for links to come
}

// Listen returns a network whose address is already listened on: a dial made
// before the first Accept waits for it.
func Listen() *Network {
	n := &Network{links: make(map[*Link]struct{})}
	n.listener = newListener()
	return n
}

// Listener returns the network's listener. Once that was closed, dials are
// refused until Listener is called again and returns a new one: a server that
// restarts at the same address.
func (n *Network) Listener() net.Listener {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.listener.isClosed() {
		n.listener = newListener()
	}
	return n.listener
}

// DialContext connects to the listener, whatever the address says. It fits
// http.Transport.DialContext. While the backlog is full it waits, until ctx ends.
func (n *Network) DialContext(ctx context.Context, _, address string) (net.Conn, error) {
	n.mu.Lock()
	n.dials++
	id, l := n.dials, n.listener
	if n.refuse || l.isClosed() {
		n.mu.Unlock()
		return nil, dialError(syscall.ECONNREFUSED)
	}
	link := newLink(n, id, address)
	link.Mute(n.toClient, n.toServer)
	link.Delay(n.latencyToClient, n.latencyToServer)
	n.links[link] = struct{}{}
	n.mu.Unlock()

	select {
	case l.accept <- link.server:
		if l.isClosed() {
			// It came into the queue after Close had emptied it.
			link.Cut()
			return nil, dialError(syscall.ECONNREFUSED)
		}
		return link.client, nil
	case <-l.closed:
		link.Cut()
		return nil, dialError(syscall.ECONNREFUSED)
	case <-ctx.Done():
		link.Cut()
		return nil, dialError(ctx.Err())
	}
}

func dialError(err error) error {
	return &net.OpError{Op: "dial", Net: networkName, Err: err}
}

// Refuse makes every dial fail with ECONNREFUSED, until Refuse(false).
// Connections that exist live on.
func (n *Network) Refuse(refuse bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.refuse = refuse
}

// Mute holds back what travels in the named directions, on every connection
// there is and will be, and lets pass what the other arguments release. As on a
// real network nobody is told, written bytes wait (up to the buffer's bound, then
// the writer blocks) and arrive when the direction is released.
func (n *Network) Mute(toClient, toServer bool) {
	n.mu.Lock()
	n.toClient, n.toServer = toClient, toServer
	n.mu.Unlock()
	for _, link := range n.Links() {
		link.Mute(toClient, toServer)
	}
}

// Delay makes what is written from now on arrive that much later, in each
// direction, on every connection there is and will be. The order is kept: what is
// under way already arrives first, as late as it was to. Zero: at once. Dials are
// not delayed.
func (n *Network) Delay(toClient, toServer time.Duration) {
	n.mu.Lock()
	n.latencyToClient, n.latencyToServer = toClient, toServer
	n.mu.Unlock()
	for _, link := range n.Links() {
		link.Delay(toClient, toServer)
	}
}

// Cut resets every connection: see [Link.Cut].
func (n *Network) Cut() {
	for _, link := range n.Links() {
		link.Cut()
	}
}

// Links returns the connections of which an end is still open, oldest first.
func (n *Network) Links() []*Link {
	n.mu.Lock()
	defer n.mu.Unlock()
	links := make([]*Link, 0, len(n.links))
	for link := range n.links {
		links = append(links, link)
	}
	slices.SortFunc(links, func(a, b *Link) int { return cmp.Compare(a.id, b.id) })
	return links
}

// Count returns the number of connections of which an end is still open.
func (n *Network) Count() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.links)
}

// Dials returns how often DialContext was called, refused dials included.
func (n *Network) Dials() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.dials
}

func (n *Network) forget(link *Link) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.links, link)
}

// listener is one life of the server's listening socket.
type listener struct {
	accept chan *conn
	closed chan struct{}
	once   sync.Once
}

func newListener() *listener {
	return &listener{accept: make(chan *conn, backlog), closed: make(chan struct{})}
}

func (l *listener) isClosed() bool {
	select {
	case <-l.closed:
		return true
	default:
		return false
	}
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case <-l.closed:
		return nil, &net.OpError{Op: "accept", Net: networkName, Err: net.ErrClosed}
	default:
	}
	select {
	case c := <-l.accept:
		return c, nil
	case <-l.closed:
		return nil, &net.OpError{Op: "accept", Net: networkName, Err: net.ErrClosed}
	}
}

// Close stops listening and resets what nobody had accepted.
func (l *listener) Close() error {
	l.once.Do(func() {
		close(l.closed)
		for {
			select {
			case c := <-l.accept:
				c.link.Cut()
			default:
				return
			}
		}
	})
	return nil
}

func (l *listener) Addr() net.Addr { return addr("server") }

const networkName = "mem"

type addr string

func (addr) Network() string  { return networkName }
func (a addr) String() string { return string(a) }

func clientAddr(id int) addr { return addr(fmt.Sprintf("client-%d", id)) }
