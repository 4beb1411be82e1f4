package main

import (
	"strings"
	"testing"

	"github.com/go-openapi/runtime"
	"github.com/openziti/edge-api/rest_model"
)

// An identity type as the API shows it; each test spoils one member of it.
const identityType = `{"data":{"_links":{"self":{"href":"./identity-types/Default"}},"createdAt":"2026-01-01T00:00:00.000Z",
	"id":"Default","name":"Default","tags":{},"updatedAt":"2026-01-01T00:00:00.000Z"},"meta":{}}`

func read(body string) (*ledger, error) {
	calls := newLedger()
	reader := &strict{own: runtime.JSONConsumer(), calls: calls}
	return calls, reader.Consume(strings.NewReader(body), &rest_model.DetailIdentityTypeEnvelope{})
}

func TestStrictReading(t *testing.T) {
	for _, spoiled := range []struct{ name, from, to, fault string }{
		{"nothing", "", "", ""},
		{"a member is missing", `"id":"Default",`, "", "data.id in body is required"},
		{"a member is null", `"id":"Default"`, `"id":null`, "data.id in body is required"},
		{"a member has another type", `"id":"Default"`, `"id":7`, "cannot be decoded"},
		{"a moment is none", `"updatedAt":"2026`, `"updatedAt":"late 2026`, "cannot be decoded"},
		{"data is missing", `{"data":`, `{"date":`, "data in body is required"},
		{"a member is not known", `"tags":{}`, `"tags":{},"colour":"red"`, ""},
		{"a member is empty", `"name":"Default"`, `"name":""`, ""},
	} {
		t.Run(spoiled.name, func(t *testing.T) {
			calls, err := read(strings.Replace(identityType, spoiled.from, spoiled.to, 1))
			if spoiled.fault == "" && err != nil || spoiled.fault != "" && (err == nil || !strings.Contains(err.Error(), spoiled.fault)) {
				t.Fatalf("wanted %q, got %v", spoiled.fault, err)
			}
			if known := strings.Contains(spoiled.to, "colour"); known != (len(calls.extra()) == 1) {
				t.Fatalf("not known: %v", calls.extra())
			}
		})
	}
}

// An allowed null must not hide a fault in a later member.
func TestNullMembers(t *testing.T) {
	const body = `{"data":{"externalId":null,"permissions":null,"isAdmin":true},"meta":{}}`
	reader := &strict{own: runtime.JSONConsumer(), calls: newLedger()}
	err := reader.Consume(strings.NewReader(body), &rest_model.DetailIdentityEnvelope{})
	if err == nil || strings.Contains(err.Error(), "externalId") {
		t.Fatalf("wanted what is missing, got %v", err)
	}
}

func TestComparison(t *testing.T) {
	type entity = map[string]any
	for _, pair := range []struct {
		name      string
		sent, got entity
		hidden    string
		fault     string
	}{
		{"the same", entity{"a": 1, "b": []string{"x", "y"}}, entity{"a": 1, "b": []string{"y", "x"}, "c": 2}, "", ""},
		{"another value", entity{"a": 1}, entity{"a": 2}, "", "a: sent 1, got 2"},
		{"another value that is hidden", entity{"a": entity{"b": 1}}, entity{"a": entity{"b": 2}}, "a", ""},
		{"another value below", entity{"a": entity{"b": true}}, entity{"a": entity{"b": false}}, "", "a.b"},
		{"a longer list", entity{"a": []string{"x"}}, entity{"a": []string{"x", "y"}}, "", "a: sent"},
		{"not there", entity{"a": "x"}, entity{}, "", "a: sent x"},
		{"not sent", entity{"a": nil}, entity{"a": "x"}, "", ""},
		{"one tag more", entity{"tags": entity{"a": 1}}, entity{"tags": entity{"a": 1, "b": 2}}, "", "tags: sent"},
		{"a moment in another form", entity{"a": "2026-01-01T00:00:00Z"}, entity{"a": "2026-01-01T01:00:00.000+01:00"}, "", ""},
	} {
		t.Run(pair.name, func(t *testing.T) {
			err := shown(pair.sent, pair.got, pair.hidden)
			if pair.fault == "" && err != nil || pair.fault != "" && (err == nil || !strings.Contains(err.Error(), pair.fault)) {
				t.Fatalf("wanted %q, got %v", pair.fault, err)
			}
		})
	}
}
