//go:build linux

package main

import (
	"context"
	"errors"
	"os"
	"time"

	"golang.org/x/sync/errgroup"
)

// crowd is the process of a server's clients. Its exported methods are what it can
// be asked to do.
type crowd struct {
	kind      string
	receipts  *os.File
	present   []*visitor
	positions []position
}

func runCrowd(args []string) error {
	return answerCalls("crowd", &crowd{kind: args[0], receipts: os.NewFile(receiptsFD, "receipts")})
}

// atOnce is how many clients are under way to a server at a time.
const atOnce = 16

// Visits are those of many clients.
type Visits struct {
	Addr  string
	Count int
	Visit Visit
}

// arrive makes one visit for each that pick returns, and keeps the clients in their
// order.
func (c *crowd) arrive(addr string, count int, pick func(i int) Visit) (took time.Duration, err error) {
	c.present = make([]*visitor, count)
	started := time.Now()
	group, ctx := errgroup.WithContext(context.Background())
	group.SetLimit(atOnce)
	for i := range count {
		group.Go(func() (err error) {
			c.present[i], err = pick(i).pay(ctx, addr)
			return err
		})
	}
	err = group.Wait()
	return time.Since(started), err
}

// Visit makes visits, says how long they took and keeps the clients.
func (c *crowd) Visit(v Visits, took *time.Duration) (err error) {
	*took, err = c.arrive(v.Addr, v.Count, func(int) Visit { return v.Visit })
	return err
}

// Leave drops all clients without a word.
func (c *crowd) Leave(_ struct{}, _ *struct{}) error {
	var errs []error
	for _, v := range c.present {
		if v.conn != nil {
			errs = append(errs, v.conn.Close())
		}
	}
	c.present = nil
	return errors.Join(errs...)
}

// Remember notes where the clients that are there stand.
func (c *crowd) Remember(_ struct{}, _ *struct{}) (err error) {
	c.positions = make([]position, len(c.present))
	for i, v := range c.present {
		if c.positions[i], err = readPosition(c.kind, v.answer); err != nil {
			return err
		}
	}
	return nil
}

// Return is how clients come back.
type Return struct {
	Addr   string
	Missed int // events since
}

// Return brings back the clients that were remembered, and says how long it took.
func (c *crowd) Return(r Return, took *time.Duration) (err error) {
	*took, err = c.arrive(r.Addr, len(c.positions), func(i int) Visit {
		return follower(c.kind, c.positions[i], r.Missed)
	})
	return err
}

// Watch lets the clients that are there count the events, for as long as the process
// lives.
func (c *crowd) Watch(_ struct{}, _ *struct{}) error {
	w, err := newWatch(c.kind, c.present, c.receipts)
	if err != nil {
		return err
	}
	c.present = nil
	go w.run()
	return nil
}

// Usage returns the CPU time that the process has used.
func (c *crowd) Usage(_ struct{}, usage *Usage) (err error) {
	*usage, err = usageNow()
	return err
}
