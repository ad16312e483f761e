package memnet

import (
	"errors"
	"io"
	"net"
	"time"
)

// Link is one connection, seen from the network between its ends.
type Link struct {
	network        *Network
	id             int
	client, server *conn
}

func newLink(n *Network, id int, address string) *Link {
	up, down := newPipe(), newPipe()
	link := &Link{network: n, id: id}
	client, server := clientAddr(id), addr(address)
	link.client = &conn{link: link, in: down, out: up, local: client, remote: server}
	link.server = &conn{link: link, in: up, out: down, local: server, remote: client}
	return link
}

// Cut resets the connection: bytes under way are lost, and both ends see
// ECONNRESET at once. No end says farewell.
func (l *Link) Cut() {
	l.client.in.reset()
	l.client.out.reset()
	l.network.forget(l)
}

// Mute is [Network.Mute] for this connection alone.
func (l *Link) Mute(toClient, toServer bool) {
	l.client.in.mute(toClient)
	l.client.out.mute(toServer)
}

// Delay is [Network.Delay] for this connection alone.
func (l *Link) Delay(toClient, toServer time.Duration) {
	l.client.in.delay(toClient)
	l.client.out.delay(toServer)
}

// ID numbers the connection: the first dial of the network is 1. A refused dial
// has used up its number.
func (l *Link) ID() int { return l.id }

// conn is one end of a link.
type conn struct {
	link          *Link
	in, out       *pipe
	local, remote addr
}

func (c *conn) Read(p []byte) (int, error) {
	n, err := c.in.read(p)
	return n, c.wrap("read", err)
}

func (c *conn) Write(p []byte) (int, error) {
	n, err := c.out.write(p)
	return n, c.wrap("write", err)
}

// Close lets the other end read what was written, and then EOF.
func (c *conn) Close() error {
	if !c.in.closeRead() {
		return c.wrap("close", net.ErrClosed)
	}
	c.out.closeWrite()
	if c.link.client.in.isReadClosed() && c.link.server.in.isReadClosed() {
		c.link.network.forget(c.link)
	}
	return nil
}

func (c *conn) LocalAddr() net.Addr  { return c.local }
func (c *conn) RemoteAddr() net.Addr { return c.remote }

func (c *conn) SetDeadline(t time.Time) error {
	if err := c.SetReadDeadline(t); err != nil {
		return err
	}
	return c.SetWriteDeadline(t)
}

func (c *conn) SetReadDeadline(t time.Time) error {
	return c.wrap("set", c.in.setReadDeadline(t))
}

func (c *conn) SetWriteDeadline(t time.Time) error {
	return c.wrap("set", c.out.setWriteDeadline(t))
}

// wrap leaves io.EOF bare, as io.Reader promises.
func (c *conn) wrap(op string, err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return err
	}
	return &net.OpError{Op: op, Net: networkName, Source: c.local, Addr: c.remote, Err: err}
}
