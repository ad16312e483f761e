package server

import "github.com/longwire/longwire/wire"

// Reauthorize asks Authorize again about every stream that a connection of user
// follows; call it when rights have changed. A stream that is forbidden now is
// taken away, and the client is told so; the rest goes on, and so does a stream of
// which Authorize cannot say now (a *Refusal with Retry, or no answer in time): call
// again then. It returns how many connections are asked about and does not wait for
// the answers. Other nodes need a call of their own. A resume is asked about anyway.
// An empty user, the anonymous ones, is nobody.
func (s *Server) Reauthorize(user string) int {
	if user == "" {
		return 0
	}
	n := 0
	for _, c := range s.connections() {
		if c.identity.User == user && c.reauthorize() {
			n++
		}
	}
	return n
}

// reauthorize has the lane do it, or greet after the welcome, and reports whether
// the connection is open.
func (c *conn) reauthorize() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.bye != nil || c.ended {
		return false
	}
	if !c.rechecking && !c.greeting {
		enter(c, &c.subs, c.recheck, call)
	}
	c.rechecking = true
	return true
}

// recheck works in the subs lane.
func (c *conn) recheck() {
	c.mu.Lock()
	c.rechecking = false
	var names []string
	for _, f := range c.follows {
		if !f.topic.isOwn() {
			names = append(names, f.topic.name)
		}
	}
	c.mu.Unlock()
	for _, name := range names {
		if !c.isOpen() {
			return
		}
		if a := c.authorize(name); a.Error == wire.ErrForbidden {
			c.unfollow(name)
			c.answer(wire.Subbed{Stream: name, Answer: a})
		}
	}
}
