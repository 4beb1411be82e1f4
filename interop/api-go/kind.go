package main

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/openziti/edge-api/rest_model"
)

// A kind is a kind of entity as one session's generated client creates, reads and changes it.
type kind[Create, Update, Patch any] struct {
	name string
	// by is the symbol that filters find an entity's name under.
	by string

	create func(Create) (string, error)
	detail func(id string) (any, error)
	list   func(query) (page, error)
	update func(id string, body Update) error
	patch  func(id string, body Patch) error
	remove func(id string) error
}

// A query is what every list takes.
type query struct {
	filter        *string
	limit, offset *int64
}

// A page is what every list gives.
type page struct {
	items any
	meta  *rest_model.Meta
}

// bodies are the request bodies by which a trial makes a kind's entities.
type bodies[Create, Update, Patch any] struct {
	create func(name string) Create
	update func(name string) Update
	patch  func() Patch
	// patched are the members that patch has.
	patched []string
	// hidden are members of bodies that details show in another form or not at all.
	hidden []string
	// clash creates another entity of this name, for kinds with further members that must differ.
	clash func(name string) Create
	// unnamed kinds have no names that must be there and differ.
	unnamed bool
	// silent are the operations whose descriptions do not know that there may be no session.
	silent []string
}

// A trial creates, finds, changes and deletes entities of a kind.
type trial[Create, Update, Patch any] struct {
	kind   kind[Create, Update, Patch]
	nobody kind[Create, Update, Patch]
	bodies bodies[Create, Update, Patch]
	names  []string
	ids    []string
}

// try creates, finds, changes and deletes three entities of a kind, and sends requests that must be refused.
func try[Create, Update, Patch any](r *report, of, nobody kind[Create, Update, Patch], prefix string, b bodies[Create, Update, Patch]) {
	r.begin(of.name)
	t := trial[Create, Update, Patch]{kind: of, nobody: nobody, bodies: b}
	for _, letter := range []string{"b", "a", "c"} {
		name := fmt.Sprintf("%s-%s", prefix, letter)
		created := r.check("create", func() error {
			id, err := of.create(b.create(name))
			if err == nil && id == "" {
				err = errors.New("there is no id in the answer")
			}
			t.names, t.ids = append(t.names, name), append(t.ids, id)
			return err
		})
		if !created {
			return
		}
	}
	t.read(r)
	t.find(r, prefix)
	t.change(r)
	t.refuse(r)
	t.end(r)
}

// read compares what was sent with what is shown.
func (t *trial[Create, Update, Patch]) read(r *report) {
	for at, id := range t.ids {
		r.check("detail of what was created", func() error {
			entity, err := t.kind.detail(id)
			if err != nil {
				return err
			}
			return errors.Join(identified(entity, id), shown(t.bodies.create(t.names[at]), entity, t.bodies.hidden...))
		})
	}
}

// find lists by filters, in order and in pages.
func (t *trial[Create, Update, Patch]) find(r *report, prefix string) {
	b, a, c := t.ids[0], t.ids[1], t.ids[2]
	ours := fmt.Sprintf("%s contains %q", t.kind.by, prefix)
	hourAgo := time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)
	searches := []struct {
		filter string
		found  []string
	}{
		{fmt.Sprintf("%s = %q", t.kind.by, t.names[1]), []string{a}},
		{fmt.Sprintf("id = %q", b), []string{b}},
		{fmt.Sprintf("id in [%q, %q] sort by id limit none", a, c), sorted(a, c)},
		{ours + " sort by " + t.kind.by, []string{a, b, c}},
		{ours + " sort by " + t.kind.by + " desc", []string{c, b, a}},
		{ours + " sort by " + t.kind.by + " skip 1 limit 1", []string{b}},
		{fmt.Sprintf("%s and not %s = %q sort by %s", ours, t.kind.by, t.names[0], t.kind.by), []string{a, c}},
		{fmt.Sprintf("%s and createdAt > datetime(%s) sort by %s", ours, hourAgo, t.kind.by), []string{a, b, c}},
		{fmt.Sprintf("%s and createdAt < datetime(%s)", ours, hourAgo), nil},
		{fmt.Sprintf("%s icontains %q and tags.run = %q sort by %s", t.kind.by, prefix, "generated", t.kind.by), []string{a, b, c}},
		{fmt.Sprintf("%s and tags.run = %q", ours, "nothing"), nil},
	}
	for _, search := range searches {
		r.check("list "+search.filter, func() error {
			found, err := t.kind.list(query{filter: &search.filter})
			if err != nil {
				return err
			}
			if ids := idsOf(found.items); !slices.Equal(ids, search.found) {
				return fmt.Errorf("found %v, not %v", ids, search.found)
			}
			if len(found.meta.FilterableFields) == 0 {
				return errors.New("no filterableFields")
			}
			return nil
		})
	}
	r.check("list in order of creation", func() error { return t.newestFirst(ours) })
	r.check("pages", func() error { return t.pages(ours+" sort by "+t.kind.by, []string{a, b, c}) })
	r.check("lists show what details show", func() error {
		found, err := t.kind.list(query{filter: ptr(fmt.Sprintf("id = %q", a))})
		if err != nil {
			return err
		}
		entity, err := t.kind.detail(a)
		if err != nil {
			return err
		}
		items, err := plain(found.items)
		if err != nil {
			return err
		}
		return unchanged(entity, items.([]any)[0])
	})
}

// newestFirst sorts by a moment; entities made within the same one may come in any order.
func (t *trial[Create, Update, Patch]) newestFirst(filter string) error {
	found, err := t.kind.list(query{filter: ptr(filter + " sort by createdAt desc")})
	if err != nil {
		return err
	}
	items, err := plain(found.items)
	if err != nil {
		return err
	}
	var before time.Time
	for place, item := range items.([]any) {
		created, _ := moment(at(item, "createdAt"))
		if place > 0 && created.After(before) {
			return fmt.Errorf("%v after %v", created, before)
		}
		before = created
	}
	if ids := idsOf(found.items); !slices.Equal(sorted(ids...), sorted(t.ids...)) {
		return fmt.Errorf("found %v, not %v", ids, t.ids)
	}
	return nil
}

// pages reads one entity at a time by the parameters that every list has.
func (t *trial[Create, Update, Patch]) pages(filter string, ids []string) error {
	for at, id := range ids {
		found, err := t.kind.list(query{&filter, ptr(int64(1)), ptr(int64(at))})
		if err != nil {
			return err
		}
		place := found.meta.Pagination
		if *place.TotalCount != int64(len(ids)) || *place.Limit != 1 || *place.Offset != int64(at) {
			return fmt.Errorf("offset %d of %d: limit %d, offset %d, total %d", at, len(ids), *place.Limit, *place.Offset, *place.TotalCount)
		}
		if found := idsOf(found.items); !slices.Equal(found, []string{id}) {
			return fmt.Errorf("offset %d: found %v, not %s", at, found, id)
		}
	}
	return nil
}

// change patches, which leaves other members as they were, and replaces.
func (t *trial[Create, Update, Patch]) change(r *report) {
	id := t.ids[0]
	r.check("patch", func() error {
		before, err := t.kind.detail(id)
		if err != nil {
			return err
		}
		body := t.bodies.patch()
		if err := t.kind.patch(id, body); err != nil {
			return err
		}
		after, err := t.kind.detail(id)
		if err != nil {
			return err
		}
		return errors.Join(shown(body, after, t.bodies.hidden...), unchanged(before, after, t.bodies.patched...))
	})
	r.check("update", func() error {
		body := t.bodies.update(t.names[0] + "-new")
		if err := t.kind.update(id, body); err != nil {
			return err
		}
		after, err := t.kind.detail(id)
		if err != nil {
			return err
		}
		return errors.Join(shown(body, after, t.bodies.hidden...), bare(after))
	})
}

// bare fails if an entity has tags: an update without any takes them away.
func bare(entity any) error {
	value, err := plain(entity)
	if err != nil {
		return err
	}
	if left := keys(at(value, "tags")); len(left) > 0 {
		return fmt.Errorf("tags are left: %v", left)
	}
	return nil
}

// refuse sends requests that must be refused.
func (t *trial[Create, Update, Patch]) refuse(r *report) {
	const unknown = "no-such-entity"
	name := t.names[2]
	clash := t.bodies.clash
	if clash == nil {
		clash = t.bodies.create
	}
	if !t.bodies.unnamed {
		r.check("create with the name of another", func() error {
			_, err := t.kind.create(clash(name))
			return refused(err, 400, "COULD_NOT_VALIDATE", "name")
		})
		r.check("create without a name", func() error {
			_, err := t.kind.create(t.bodies.create(""))
			return refused(err, 400, "COULD_NOT_VALIDATE", "name")
		})
		r.check("update to the name of another", func() error {
			return refused(t.kind.update(t.ids[0], t.bodies.update(name)), 400, "COULD_NOT_VALIDATE", "name")
		})
	}
	for filter, code := range map[string]string{
		t.kind.by + " ~ 3":       "INVALID_FILTER",
		"nowhere = 1":            "INVALID_FILTER",
		"true sort by nowhere":   "INVALID_SORT_IDENTIFIER",
		"true limit 1 limit two": "INVALID_FILTER",
	} {
		r.check("list "+filter, func() error {
			_, err := t.kind.list(query{filter: &filter})
			return refused(err, 400, code, "")
		})
	}
	for what, k := range map[string]struct {
		of     kind[Create, Update, Patch]
		id     string
		status int
		code   string
	}{
		" of nothing": {t.kind, unknown, 404, "NOT_FOUND"},
		" by nobody":  {t.nobody, t.ids[2], 401, "UNAUTHORIZED"},
	} {
		operations := []struct {
			name string
			call func() error
		}{
			{"detail", func() error { _, err := k.of.detail(k.id); return err }},
			{"patch", func() error { return k.of.patch(k.id, t.bodies.patch()) }},
			{"update", func() error { return k.of.update(k.id, t.bodies.update(name)) }},
			{"delete", func() error { return k.of.remove(k.id) }},
		}
		for _, operation := range operations {
			if slices.Contains(t.bodies.silent, operation.name+what) {
				continue
			}
			r.check(operation.name+what, func() error { return refused(operation.call(), k.status, k.code, "") })
		}
	}
	r.check("create by nobody", func() error {
		_, err := t.nobody.create(t.bodies.create(name + "-nobody"))
		return refused(err, 401, "UNAUTHORIZED", "")
	})
	r.check("list by nobody", func() error {
		_, err := t.nobody.list(query{})
		return refused(err, 401, "UNAUTHORIZED", "")
	})
}

// end deletes the entities.
func (t *trial[Create, Update, Patch]) end(r *report) {
	for _, id := range t.ids {
		r.check("delete", func() error { return t.kind.remove(id) })
		r.check("detail of what was deleted", func() error {
			_, err := t.kind.detail(id)
			return refused(err, 404, "NOT_FOUND", "")
		})
		r.check("list of what was deleted", func() error {
			found, err := t.kind.list(query{filter: ptr(fmt.Sprintf("id = %q", id))})
			if err == nil && *found.meta.Pagination.TotalCount != 0 {
				err = errors.New("it is still there")
			}
			return err
		})
	}
}

// identified fails unless an entity has the id it was asked for by.
func identified(entity any, id string) error {
	value, err := plain(entity)
	if err != nil {
		return err
	}
	if shown := at(value, "id"); shown != id {
		return fmt.Errorf("its id is %v, not %s", shown, id)
	}
	return nil
}

// idsOf are the ids of a list's entities.
func idsOf(items any) []string {
	value, err := plain(items)
	if err != nil {
		return nil
	}
	list, _ := value.([]any)
	var ids []string
	for _, item := range list {
		id, _ := at(item, "id").(string)
		ids = append(ids, id)
	}
	return ids
}

func sorted(texts ...string) []string {
	return slices.Sorted(slices.Values(texts))
}

// ptr is where a value lies: the models' optional members are pointers.
func ptr[T any](value T) *T { return &value }
