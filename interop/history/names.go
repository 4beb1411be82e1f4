package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
)

const (
	uniquePrefix, contendedPrefix = "unique-", "contended-"
	// Unique names have parts, each of which fits into one page of a list.
	parts = 16
	// The longest page.
	limit = 500
)

func uniqueName(number int) string { return uniquePart(number) + strconv.Itoa(number) }

func uniquePart(number int) string { return fmt.Sprintf("%s%d-", uniquePrefix, number%parts) }

// createUnique asks for a name that nobody else asks for.
func (c *client) createUnique(ctx context.Context) {
	c.create(ctx, c.history.begin(createUnique, c.number, c.at))
}

func (c *client) claimName(ctx context.Context) {
	e := c.history.begin(claimName, c.number, c.at)
	e.Key = c.anyName()
	c.create(ctx, e)
}

func (c *client) anyName() string { return fmt.Sprint(contendedPrefix, c.dice.IntN(contended)) }

func (c *client) create(ctx context.Context, e *event) {
	if e.Key == "" {
		e.Key = uniqueName(e.Number)
	}
	a := c.call(ctx, c.at, http.MethodPost, management+"/services", entry(e.Key, e.Number))
	if a.tell(e) {
		var made service
		if err := json.Unmarshal(a.data, &made); err != nil {
			c.history.trouble(fmt.Sprintf("%s: %v", e, err))
		}
		c.shared.know(e.Key, created{made.ID, e.Number})
	} else if e.Outcome == refused && (e.Kind != claimName || a.field != "name") {
		e.Outcome = failed
	}
	c.settle(ctx, e)
}

// know notes a service that clients may delete.
func (s *shared) know(name string, who created) {
	s.lock.Lock()
	defer s.lock.Unlock()
	if _, isRegister := s.registers[name]; isRegister {
		return
	}
	if len(name) > len(contendedPrefix) && name[:len(contendedPrefix)] == contendedPrefix {
		s.holders[name] = who
	} else {
		s.uniques = append(s.uniques, who)
	}
}

func (c *client) applyUnique(ctx context.Context) {
	e := c.history.begin(applyUnique, c.number, c.at)
	e.Key = uniqueName(e.Number)
	c.apply(ctx, e, document(entry(e.Key, e.Number)))
}

// deleteUnique deletes a service that somebody has created; nobody else tries.
func (c *client) deleteUnique(ctx context.Context) {
	c.shared.lock.Lock()
	if len(c.shared.uniques) == 0 {
		c.shared.lock.Unlock()
		return
	}
	at, last := c.dice.IntN(len(c.shared.uniques)), len(c.shared.uniques)-1
	target := c.shared.uniques[at]
	c.shared.uniques[at] = c.shared.uniques[last]
	c.shared.uniques = c.shared.uniques[:last]
	c.shared.lock.Unlock()

	e := c.history.begin(deleteUnique, c.number, c.at)
	e.Key, e.Target = uniqueName(target.number), target.number
	c.call(ctx, c.at, http.MethodDelete, management+"/services/"+target.id, nil).tell(e)
	c.settle(ctx, e)
}

// listUniques notes a part of them, as the controller knows it.
func (c *client) listUniques(ctx context.Context) {
	e := c.history.begin(listUnique, c.number, c.at)
	e.Key = uniquePart(c.dice.IntN(parts))
	list, a := c.services(ctx, c.at, e.Key)
	if a.tell(e) {
		e.Seen = bearers(list)
	}
	c.settle(ctx, e)
}

// bearers tells by which event each name was given.
func bearers(list []service) map[string]int {
	seen := map[string]int{}
	for _, one := range list {
		seen[one.Name], _ = strconv.Atoi(one.Tags["by"])
	}
	return seen
}

// services lists the services whose names contain a text. More than one page
// is asked for only where nothing changes meanwhile.
func (c *caller) services(ctx context.Context, controller int, text string) ([]service, *answer) {
	var all []service
	for {
		filter := fmt.Sprintf("name contains %q", text)
		a := c.call(ctx, controller, http.MethodGet, servicesPath(filter, len(all), limit), nil)
		if a.outcome() != done {
			return nil, a
		}
		var page []service
		if err := json.Unmarshal(a.data, &page); err != nil {
			return nil, &answer{err: err, sent: true}
		}
		if all = append(all, page...); len(page) < limit {
			return all, a
		}
	}
}

// target chooses whom to release or touch: mostly who was last known to have the name.
func (c *client) target(e *event) (string, bool) {
	c.shared.lock.Lock()
	defer c.shared.lock.Unlock()
	e.Key = c.anyName()
	holder, known := c.shared.holders[e.Key]
	e.Target = holder.number
	return management + "/services/" + holder.id, known
}

func (c *client) releaseName(ctx context.Context) {
	e := c.history.begin(releaseName, c.number, c.at)
	if path, known := c.target(e); known {
		c.call(ctx, c.at, http.MethodDelete, path, nil).tell(e)
		c.settle(ctx, e)
	}
}

func (c *client) touchName(ctx context.Context) {
	e := c.history.begin(touchName, c.number, c.at)
	if path, known := c.target(e); known {
		c.call(ctx, c.at, http.MethodPatch, path, map[string]any{"maxIdleTimeMillis": e.Number}).tell(e)
		c.settle(ctx, e)
	}
}

// readName asks who has a name, once the controller has asked etcd for the head.
func (c *client) readName(ctx context.Context) {
	e := c.history.begin(holderRead, c.number, c.at)
	e.Key = c.anyName()
	if !c.fence(ctx, e) {
		return
	}
	list, a := c.services(ctx, c.at, e.Key)
	if a.tell(e) {
		e.Seen = bearers(list)
		for _, one := range list {
			c.shared.know(one.Name, created{one.ID, e.Seen[one.Name]})
		}
	}
	c.settle(ctx, e)
}
