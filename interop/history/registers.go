package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

func registerName(at int) string { return fmt.Sprintf("register-%d", at) }

func tags(number int) map[string]string { return map[string]string{"by": strconv.Itoa(number)} }

// entry is a service of a document or a body.
func entry(name string, value int) map[string]any {
	return map[string]any{
		"name": name, "encryptionRequired": true, "maxIdleTimeMillis": value, "tags": tags(value),
	}
}

func document(entries ...map[string]any) map[string]any {
	return map[string]any{"network": map[string]any{"services": entries}}
}

// makeRegister creates a register with its first value, and returns its id.
func (c *client) makeRegister(ctx context.Context, at int) (string, error) {
	a := c.call(ctx, 0, http.MethodPost, management+"/services", entry(registerName(at), at+1))
	var made service
	if err := json.Unmarshal(a.data, &made); a.outcome() != done || err != nil {
		err = errors.Join(a.err, err, errors.New(a.code+" "+a.cause))
		return "", fmt.Errorf("a register cannot be created: status %d, %w", a.status, err)
	}
	return made.ID, nil
}

func (c *client) anyRegister() string { return registerName(c.dice.IntN(registers)) }

func (c *client) patchRegister(ctx context.Context) {
	e := c.history.begin(patchRegister, c.number, c.at)
	e.Key = c.anyRegister()
	body := map[string]any{"maxIdleTimeMillis": e.Number, "tags": tags(e.Number)}
	path := management + "/services/" + c.shared.registers[e.Key]
	c.call(ctx, c.at, http.MethodPatch, path, body).tell(e)
	c.settle(ctx, e)
}

func (c *client) swapRegister(ctx context.Context) {
	e := c.history.begin(swapRegister, c.number, c.at)
	e.Key = c.anyRegister()
	c.apply(ctx, e, document(entry(e.Key, e.Number)))
}

// swapPair writes two registers at once: nobody may see one without the other.
func (c *client) swapPair(ctx context.Context) {
	e := c.history.begin(swapPair, c.number, c.at)
	first := c.dice.IntN(registers)
	e.Key, e.Other = registerName(first), registerName((first+1+c.dice.IntN(registers-1))%registers)
	c.apply(ctx, e, document(entry(e.Key, e.Number), entry(e.Other, e.Number)))
}

// sameDocument writes a register, and asks another controller to apply the document of its former value. A revision that
// the network never has again lets nothing be changed, so that the answer is only good if the register still has, or
// has again, the former value.
func (c *client) sameDocument(ctx context.Context) {
	written := c.history.begin(swapRegister, c.number, c.at)
	written.Key = c.anyRegister()
	c.apply(ctx, written, document(entry(written.Key, written.Number)))
	if written.Outcome != done {
		return
	}
	c.hop()
	e := c.history.begin(sameDocument, c.number, c.at)
	e.Key, e.Target = written.Key, written.Seen[written.Key]
	body := document(entry(e.Key, e.Target))
	body["expectRevision"] = 1
	a := c.call(ctx, c.at, http.MethodPost, "/weft/v1/apply", body)
	a.tell(e)
	c.settle(ctx, e)
}

// apply sends a document that changes something.
func (c *client) apply(ctx context.Context, e *event, body map[string]any) {
	a := c.call(ctx, c.at, http.MethodPost, "/weft/v1/apply", body)
	if a.tell(e) {
		c.take(e, a.data)
	}
	c.settle(ctx, e)
}

// take reads a plan into an event.
func (c *client) take(e *event, data json.RawMessage) {
	var told plan
	err := json.Unmarshal(data, &told)
	if err == nil && e.Kind != applyUnique {
		e.Seen, err = told.before()
	}
	e.Revision = told.Revision
	if err != nil {
		c.history.trouble(fmt.Sprintf("%s: %v", e, err))
	}
}

// planRead asks what a document would change that sets all registers to their default: that tells their values at one
// revision.
func (c *client) planRead(ctx context.Context) {
	c.readPlan(ctx, c.history.begin(planRead, c.number, c.at))
}

func (c *client) readPlan(ctx context.Context, e *event) {
	var entries []map[string]any
	for at := range registers {
		entries = append(entries, map[string]any{"name": registerName(at), "encryptionRequired": true})
	}
	a := c.call(ctx, c.at, http.MethodPost, "/weft/v1/plan", document(entries...))
	if a.tell(e) {
		c.take(e, a.data)
	}
	c.settle(ctx, e)
}

// fence has the controller ask etcd for the head, and returns whether it knows everything that was acknowledged
// before: a delete of what was never there is refused only after that.
func (c *client) fence(ctx context.Context, e *event) bool {
	a := c.call(ctx, c.at, http.MethodDelete, management+"/services/never-there", nil)
	if a.tell(e); e.Outcome == refused {
		return true
	}
	if e.Outcome == done {
		e.Outcome = failed
	}
	c.settle(ctx, e)
	return false
}

func (c *client) freshRead(ctx context.Context) {
	e := c.history.begin(freshRead, c.number, c.at)
	if c.fence(ctx, e) {
		c.readPlan(ctx, e)
	}
}

func (c *client) readRegister(ctx context.Context) {
	e := c.history.begin(plainRead, c.number, c.at)
	e.Key = c.anyRegister()
	a := c.call(ctx, c.at, http.MethodGet, management+"/services/"+c.shared.registers[e.Key], nil)
	if a.tell(e) {
		var seen service
		err := json.Unmarshal(a.data, &seen)
		if err != nil || seen.Tags["by"] != strconv.Itoa(seen.MaxIdleTimeMillis) {
			c.history.trouble(fmt.Sprintf("%s: what was written together is %s (%v)", e, a.data, err))
		}
		e.Seen = map[string]int{e.Key: seen.MaxIdleTimeMillis}
	}
	c.settle(ctx, e)
}

// readAfterPlan hands the highest revision that the client was told on to another controller: it waits until a plan
// of that one has the revision, and reads there.
func (c *client) readAfterPlan(ctx context.Context) {
	c.hop()
	c.awaitRevision(ctx, func() *event {
		e := c.history.begin(planRead, c.number, c.at)
		c.readPlan(ctx, e)
		return e
	})
}

// readAfterCluster does the same with the revision that the list of controllers tells.
func (c *client) readAfterCluster(ctx context.Context) {
	c.hop()
	c.awaitRevision(ctx, func() *event {
		e := c.history.begin(clusterRead, c.number, c.at)
		a := c.call(ctx, c.at, http.MethodGet, "/weft/v1/cluster", nil)
		if a.tell(e) {
			var told struct{ Revision int64 }
			if err := json.Unmarshal(a.data, &told); err != nil {
				c.history.trouble(fmt.Sprintf("%s: %v", e, err))
			}
			e.Revision = told.Revision
		}
		c.settle(ctx, e)
		return e
	})
}

// awaitRevision asks until a controller has the client's revision, and reads there.
func (c *client) awaitRevision(ctx context.Context, ask func() *event) {
	at, wanted := c.at, c.revision
	for tries := 0; tries < 40 && ctx.Err() == nil && c.at == at; tries++ {
		e := ask()
		if e.Outcome != done {
			return
		}
		if e.Revision >= wanted {
			c.readRegister(ctx)
			return
		}
		pause(ctx, 25*time.Millisecond)
	}
}
