package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"

	faults "github.com/go-openapi/errors"
	"github.com/go-openapi/runtime"
	"github.com/go-openapi/strfmt"
)

// strict reads a body as the client does and then holds it to the client's own models: what
// they require must be there, and what they know must have been understood without loss.
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
	if model, ok := into.(interface{ Validate(strfmt.Registry) error }); ok {
		if err := broken(model.Validate(formats), raw); err != nil {
			return fmt.Errorf("breaks its model: %w", err)
		}
	}
	return s.lossless(raw, into)
}

// formats are the ones that models name. Links are references, which a `uri` does not take, and
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

// nullable are the required members that the original leaves null; the clients' models cannot
// say so.
var nullable = map[string]bool{
	"certPem":         true, // of a signer with a key set, of a router not enrolled
	"commonName":      true,
	"endTime":         true, // of a check of the database that goes on
	"error":           true,
	"externalAuthUrl": true,
	"externalId":      true,
	"fingerprint":     true,
	"jwksEndpoint":    true, // of a signer with a certificate
	"kid":             true,
	"notAfter":        true,
	"notBefore":       true,
}

// broken are the violations that count: models take null and empty lists for missing.
func broken(err error, raw []byte) error {
	var several *faults.CompositeError
	if errors.As(err, &several) {
		var counted []error
		for _, err := range several.Errors {
			counted = append(counted, broken(err, raw))
		}
		return errors.Join(counted...)
	}
	var one *faults.Validation
	if !errors.As(err, &one) || one.Code() != faults.RequiredFailCode {
		return err
	}
	value, there := lookup(raw, strings.Split(one.Name, "."))
	if there && (value != nil || nullable[one.Name[strings.LastIndex(one.Name, ".")+1:]]) {
		return nil
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

// lossless compares a body with what its model makes of it. Members that the model does not
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
