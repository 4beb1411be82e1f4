package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"reflect"
	"strconv"
	"strings"

	faults "github.com/go-openapi/errors"
	"github.com/go-openapi/runtime"
	"github.com/go-openapi/strfmt"
)

// strict reads a body as the client does and then checks it against the client's own models: required
// members must be there, and all known members must be decoded without loss.
type strict struct {
	own       runtime.Consumer
	calls     *ledger
	operation string
}

// describedWrongly are operations whose answers are not what their descriptions say, in the
// original as well: policies of another kind, and a bare document instead of one in a text.
var describedWrongly = map[string]bool{
	"listEdgeRouterServiceEdgeRouterPolicies": true,
	"detailSpecBody": true,
}

func (s *strict) Consume(body io.Reader, into any) error {
	raw, err := io.ReadAll(body)
	if err != nil {
		return err
	}
	if err := s.own.Consume(bytes.NewReader(raw), into); err != nil {
		return fmt.Errorf("cannot be decoded: %w: %.300s", err, raw)
	}
	if describedWrongly[s.operation] {
		return nil
	}
	if err := s.valid(raw, into); err != nil {
		return fmt.Errorf("breaks its model: %w", err)
	}
	return s.lossless(raw, into)
}

// formats are the formats that models name. Links are references, which a `uri` does not take, and
// the common name that proves a CA is called a `uuid` but is any text.
var formats = func() strfmt.Registry {
	formats := strfmt.NewFormats()
	formats.Add("uri", ptr(strfmt.URI("")), func(text string) bool {
		_, err := url.Parse(text)
		return err == nil
	})
	formats.Add("uuid", ptr(strfmt.UUID("")), func(text string) bool { return text != "" })
	return formats
}()

// nullable are the required members that the original leaves null, which the clients' models
// cannot say, and what stands in for null when a model is held to its rules.
var nullable = map[string]any{
	"addresses":         []any{},
	"certPem":           "PEM", // of a signer with a key set, of a router not enrolled
	"clientId":          "client",
	"commonName":        "name",
	"configs":           []any{},
	"endTime":           "2026-01-01T00:00:00.000Z", // of a check of the database that goes on
	"error":             "none",
	"externalAuthUrl":   "https://login.example",
	"externalId":        "id",
	"fingerprint":       "0a0a",
	"identityRoles":     []any{},
	"jwksEndpoint":      "https://keys.example", // of a signer with a certificate
	"kid":               "key",
	"notAfter":          "2026-01-01T00:00:00.000Z",
	"notBefore":         "2026-01-01T00:00:00.000Z",
	"permissions":       []any{},
	"postureCheckRoles": []any{},
	"roleAttributes":    []any{},
	"scopes":            []any{},
	"schema":            map[string]any{}, // of a config type without one
	"versions":          []any{},
}

// fill replaces null by the values in nullable.
func fill(value any) {
	switch value := value.(type) {
	case map[string]any:
		for name, member := range value {
			instead, known := nullable[name]
			if member == nil && known {
				value[name] = instead
				continue
			}
			fill(member)
		}
	case []any:
		for _, item := range value {
			fill(item)
		}
	}
}

// valid checks a body by the rules of its model.
func (s *strict) valid(raw []byte, into any) error {
	body, err := decoded(raw)
	if err != nil {
		return err
	}
	fill(body)
	filled, err := json.Marshal(body)
	if err != nil {
		return err
	}
	again := reflect.New(reflect.TypeOf(into).Elem()).Interface()
	if err := s.own.Consume(bytes.NewReader(filled), again); err != nil {
		return err
	}
	model, ok := again.(interface{ Validate(strfmt.Registry) error })
	if !ok {
		return nil
	}
	err = model.Validate(formats)
	var one *faults.Validation
	if errors.As(err, &one) && one.Code() == faults.RequiredFailCode {
		value, _ := lookup(raw, strings.Split(one.Name, "."))
		if list, ok := value.([]any); ok && len(list) == 0 {
			return nil // some models take an empty list for none
		}
	}
	return err
}

// lookup is the value at a path of members and positions.
func lookup(raw []byte, path []string) (any, bool) {
	value, err := decoded(raw)
	if err != nil {
		return nil, false
	}
	for _, step := range path {
		switch inner := value.(type) {
		case map[string]any:
			member, there := inner[step]
			if !there {
				return nil, false
			}
			value = member
		case []any:
			position, err := strconv.Atoi(step)
			if err != nil || position >= len(inner) {
				return nil, false
			}
			value = inner[position]
		default:
			return nil, false
		}
	}
	return value, true
}

// lossless compares a body with the one that its model encodes. Members that the model does not
// know are no fault, only noted.
func (s *strict) lossless(raw []byte, model any) error {
	sent, err := decoded(raw)
	if err != nil {
		return err
	}
	understood, err := plain(model)
	if err != nil {
		return err
	}
	var lost []string
	walk("", sent, understood, func(path string, sent any, there bool, got any) {
		switch {
		case there && !(empty(sent) && empty(got)):
			lost = append(lost, fmt.Sprintf("%s: %v was read as %v", path, sent, got))
		case !there && !empty(sent):
			s.calls.unknown(path)
		}
	})
	if lost != nil {
		return errors.New(strings.Join(lost, "; "))
	}
	return nil
}

// empty tells whether a model may leave out such a value.
func empty(value any) bool {
	switch value := value.(type) {
	case nil:
		return true
	case bool:
		return !value
	case string:
		return value == "" || isZeroTime(value)
	case json.Number:
		return value == "0"
	case []any:
		return len(value) == 0
	case map[string]any:
		return len(value) == 0
	}
	return false
}
