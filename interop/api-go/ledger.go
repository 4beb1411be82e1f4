package main

import (
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// The names of the two APIs in rows.
const (
	management = "management"
	client     = "client"
)

// A ledger notes which operations succeeded, which statuses they had, and which members of
// answers no model knows.
type ledger struct {
	done     map[string]bool
	extras   map[string]bool
	statuses map[string]map[int]bool
}

func newLedger() *ledger {
	return &ledger{done: map[string]bool{}, extras: map[string]bool{}, statuses: map[string]map[int]bool{}}
}

func (l *ledger) succeeded(api, operation string) {
	l.done[name(api, operation)] = true
}

func (l *ledger) answered(api, operation string, status int) {
	known := l.statuses[name(api, operation)]
	if known == nil {
		known = map[int]bool{}
		l.statuses[name(api, operation)] = known
	}
	known[status] = true
}

// name is the form in which an operation is noted; methods of clients are spelled in another way than ids.
func name(api, operation string) string { return api + " " + strings.ToLower(operation) }

func (l *ledger) unknown(path string) {
	l.extras[strings.TrimPrefix(path, ".")] = true
}

// never notes an operation that a controller always answers with a status that the clients do not
// know; it returns nil if the answer was this one.
func (l *ledger) never(api, operation string, err error, status int) error {
	err = undocumented(err, status)
	if err == nil {
		l.succeeded(api, operation)
	}
	return err
}

// extra are the members that no model knows.
func (l *ledger) extra() []string {
	return slices.Sorted(maps.Keys(l.extras))
}

// happened fails unless an operation succeeded.
func (l *ledger) happened(api, operation string) error {
	if !l.done[name(api, operation)] {
		return errors.New("never succeeded")
	}
	return nil
}

// operations are those of a generated client: each method of each of its services is one.
func operations(generated any) []string {
	var names []string
	services := reflect.TypeOf(generated).Elem()
	for at := range services.NumField() {
		service := services.Field(at).Type
		if service.Kind() != reflect.Interface || service.Name() != "ClientService" {
			continue
		}
		for at := range service.NumMethod() {
			if name := service.Method(at).Name; name != "SetTransport" {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return names
}
