package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	client_api "github.com/openziti/edge-api/rest_client_api_client"
	management_api "github.com/openziti/edge-api/rest_management_api_client"
)

// tryCoverage fails for each operation of the generated clients that never succeeded in the trials.
func tryCoverage(r *report, n *network) {
	r.begin("every operation of the clients")
	for _, of := range []struct {
		api       string
		generated any
	}{{management, n.admin}, {client, n.client("")}} {
		for _, operation := range operations(of.generated) {
			r.check(of.api+" "+operation, func() error { return n.calls.happened(of.api, operation) })
		}
	}
}

// tryOwnDescription fails for each status that was seen and the controller's own description lacks.
func tryOwnDescription(r *report, n *network) {
	r.begin("statuses in weft's description")
	described := map[string]map[string]json.RawMessage{}
	for api, base := range map[string]string{management: management_api.DefaultBasePath, client: client_api.DefaultBasePath} {
		r.check("description of "+api, func() error { return n.describe(api, base, described) })
	}
	for _, operation := range slices.Sorted(maps.Keys(n.calls.statuses)) {
		r.check(operation, func() error {
			responses, known := described[operation]
			if !known {
				return errors.New("is not described")
			}
			for status := range n.calls.statuses[operation] {
				if _, known := responses[strconv.Itoa(status)]; !known {
					return fmt.Errorf("status %d is not described", status)
				}
			}
			return nil
		})
	}
}

// describe adds the responses of each operation of an API.
func (n *network) describe(api, base string, into map[string]map[string]json.RawMessage) error {
	answer, err := n.over(nil).Get("https://" + n.url.Host + strings.TrimSuffix(base, "/") + "/swagger.json")
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return errors.New(answer.Status)
	}
	var document struct {
		Paths map[string]map[string]struct {
			OperationID string
			Responses   map[string]json.RawMessage
		}
	}
	if err := json.NewDecoder(answer.Body).Decode(&document); err != nil {
		return err
	}
	for _, methods := range document.Paths {
		for _, operation := range methods {
			into[name(api, operation.OperationID)] = operation.Responses
		}
	}
	return nil
}
