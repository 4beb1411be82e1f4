package main

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

const (
	clients     = 10
	controllers = 3
	registers   = 5
	contended   = 4
)

// A unique service that was created, for those who delete.
type created struct {
	id     string
	number int
}

// shared is what clients know of each other's services.
type shared struct {
	lock    sync.Mutex
	uniques []created
	// Who has a contended name, by the last answer that told it.
	holders map[string]created
	// The ids of the registers, by name.
	registers map[string]string
}

// A client asks one controller at a time, and goes to another one now and then.
type client struct {
	*caller
	at      int
	number  int
	dice    *rand.Rand
	history *history
	shared  *shared
	// The highest revision that this client was told.
	revision int64
}

// choices are the operations, with their weights.
var choices = []struct {
	weight int
	do     func(*client, context.Context)
}{
	{14, (*client).patchRegister},
	{14, (*client).swapRegister},
	{4, (*client).swapPair},
	{4, (*client).sameDocument},
	{16, (*client).readRegister},
	{8, (*client).planRead},
	{6, (*client).freshRead},
	{6, (*client).readAfterPlan},
	{4, (*client).readAfterCluster},
	{8, (*client).createUnique},
	{4, (*client).applyUnique},
	{5, (*client).deleteUnique},
	{3, (*client).listUniques},
	{8, (*client).claimName},
	{6, (*client).releaseName},
	{4, (*client).touchName},
	{4, (*client).readName},
}

// run makes operations until the context ends or there is no ticket left.
func (c *client) run(ctx context.Context, tickets <-chan struct{}) {
	total := 0
	for _, choice := range choices {
		total += choice.weight
	}
	for {
		select {
		case <-ctx.Done():
			return
		case _, open := <-tickets:
			if !open {
				return
			}
		}
		if c.dice.IntN(100) < 12 {
			c.hop()
		}
		// Most do not wait for a controller that is frozen, and some hear everything out.
		c.patience = 2 * time.Second
		if c.dice.IntN(4) == 0 {
			c.patience = mostPatience
		}
		left := c.dice.IntN(total)
		for _, choice := range choices {
			if left -= choice.weight; left < 0 {
				choice.do(c, ctx)
				break
			}
		}
	}
}

func (c *client) hop() { c.at = (c.at + 1 + c.dice.IntN(controllers-1)) % controllers }

// settle notes an event, and goes to another controller if this one does not answer.
func (c *client) settle(ctx context.Context, e *event) {
	if ctx.Err() != nil && e.Outcome == failed {
		e.Outcome = unknown
	}
	c.history.end(e)
	if e.Outcome == done && e.Revision > c.revision {
		c.revision = e.Revision
	}
	switch {
	case e.Outcome == failed:
		c.history.trouble("an answer that nothing explains: " + e.String())
		if e.Status == 401 {
			_ = c.login(ctx, c.at, password)
		}
	case e.Status == 0 || e.Outcome == notDone:
		if c.dice.IntN(2) == 0 {
			c.hop()
		}
		pause(ctx, 100*time.Millisecond)
	}
}

// pause waits, but not longer than the run.
func pause(ctx context.Context, long time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(long):
	}
}
