package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// decoded is JSON as plain maps, lists and values; numbers keep their digits.
func decoded(raw []byte) (any, error) {
	var value any
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	if err := decoder.Decode(&value); err != nil {
		return nil, err
	}
	return value, nil
}

// plain is a model as its JSON.
func plain(model any) (any, error) {
	raw, err := json.Marshal(model)
	if err != nil {
		return nil, err
	}
	return decoded(raw)
}

// walk calls differs for each member of sent that got lacks or has with another value. Lists
// of texts are sets.
func walk(path string, sent, got any, differs func(path string, sent any, there bool, got any)) {
	switch value := sent.(type) {
	case map[string]any:
		object, ok := got.(map[string]any)
		if !ok {
			differs(path, sent, true, got)
			return
		}
		for _, name := range slices.Sorted(maps.Keys(value)) {
			member, there := object[name]
			if !there {
				differs(path+"."+name, value[name], false, nil)
				continue
			}
			walk(path+"."+name, value[name], member, differs)
		}
	case []any:
		list, ok := got.([]any)
		// An empty list may be answered by null, as one that nobody gave.
		if got == nil && len(value) == 0 {
			return
		}
		if !ok || len(list) != len(value) {
			differs(path, sent, true, got)
			return
		}
		value, list = ordered(value), ordered(list)
		for at := range value {
			walk(path+"[]", value[at], list[at], differs)
		}
	default:
		if !same(sent, got) {
			differs(path, sent, true, got)
		}
	}
}

// shown fails unless answer has every member of body with the value it has there. Members of
// body that are null were not sent; those named in hidden are shown in another form or not at all. Tags
// and application data must have no further members.
func shown(body, answer any, hidden ...string) error {
	sent, err := plain(body)
	if err != nil {
		return err
	}
	got, err := plain(answer)
	if err != nil {
		return err
	}
	var more error
	for _, member := range []string{"tags", "appData"} {
		if sent, got := at(sent, member), at(got, member); sent != nil && len(keys(got)) != len(keys(sent)) {
			more = errors.Join(more, fmt.Errorf("%s: sent %v, got %v", member, sent, got))
		}
	}
	return errors.Join(contains(sent, got, hidden), more)
}

func contains(sent, got any, hidden []string) error {
	var wrong []string
	walk("", sent, got, func(path string, sent any, there bool, got any) {
		path = strings.TrimPrefix(path, ".")
		left := slices.ContainsFunc(hidden, func(name string) bool {
			rest, within := strings.CutPrefix(path, name)
			return within && (rest == "" || rest[0] == '.' || rest[0] == '[')
		})
		if sent != nil && !left && (there || !empty(sent)) {
			wrong = append(wrong, fmt.Sprintf("%s: sent %v, got %v", path, sent, got))
		}
	})
	if wrong != nil {
		return errors.New(strings.Join(wrong, "; "))
	}
	return nil
}

// unchanged fails unless both answers are equal except for the named members.
func unchanged(before, after any, but ...string) error {
	old, err := plain(before)
	if err != nil {
		return err
	}
	now, err := plain(after)
	if err != nil {
		return err
	}
	but = append(but, "updatedAt")
	return errors.Join(contains(old, now, but), contains(now, old, but))
}

// at is the member of an object, or nil.
func at(value any, name string) any {
	object, _ := value.(map[string]any)
	return object[name]
}

func keys(value any) []string {
	object, _ := value.(map[string]any)
	return keysOf(object)
}

func keysOf[V any](object map[string]V) []string {
	return slices.Collect(maps.Keys(object))
}

// ordered sorts lists of texts and leaves other values as they are.
func ordered(list []any) []any {
	texts := slices.Clone(list)
	for _, item := range texts {
		if _, ok := item.(string); !ok {
			return list
		}
	}
	slices.SortFunc(texts, func(a, b any) int { return strings.Compare(a.(string), b.(string)) })
	return texts
}

// same compares values; times are compared as times, in whatever form they are written.
func same(a, b any) bool {
	if a == b {
		return true
	}
	if a, ok := number(a); ok {
		b, ok := number(b)
		return ok && a == b
	}
	if a, ok := moment(a); ok {
		b, ok := moment(b)
		return ok && a.Truncate(time.Millisecond).Equal(b.Truncate(time.Millisecond))
	}
	return false
}

func number(value any) (float64, bool) {
	text, _ := value.(json.Number)
	size, err := text.Float64()
	return size, err == nil
}

func moment(value any) (time.Time, bool) {
	text, _ := value.(string)
	at, err := time.Parse(time.RFC3339Nano, text)
	return at, err == nil
}

func isZeroTime(text string) bool {
	at, ok := moment(text)
	return ok && at.Unix() <= 0
}
