package main

import (
	"errors"
	"fmt"

	"github.com/openziti/edge-api/rest_client_api_client/posture_checks"
	"github.com/openziti/edge-api/rest_client_api_client/service"
	"github.com/openziti/edge-api/rest_client_api_client/session"
	"github.com/openziti/edge-api/rest_management_api_client/identity"
	"github.com/openziti/edge-api/rest_model"
)

// tryPostureData reports facts about a member's device, which grant a service with a posture check
// and are shown to the administrator.
func tryPostureData(r *report, n *network) {
	r.begin("posture data")
	m := n.member("posture")
	what := n.service("posture")
	check := n.postureCheck("posture")
	keep(n, servicePolicies(n.admin), &rest_model.ServicePolicyCreate{
		Name: ptr(n.name("posture")), Type: ptr(rest_model.DialBindDial), Semantic: ptr(rest_model.SemanticAnyOf),
		IdentityRoles: n.roles("@" + m.id), ServiceRoles: n.roles("@" + what), PostureCheckRoles: n.roles("@" + check),
	})
	if !r.check("log in", m.login) {
		return
	}
	passes := func(wanted bool) error {
		answer, err := m.api.Service.DetailService(service.NewDetailServiceParams().WithID(what), nil)
		if err != nil {
			return err
		}
		for _, set := range answer.Payload.Data.PostureQueries {
			for _, query := range set.PostureQueries {
				if *query.ID == check && *query.QueryType == rest_model.PostureCheckTypeDOMAIN && *query.IsPassing == wanted {
					return nil
				}
			}
		}
		return fmt.Errorf("no query of %s that passes: %t", check, wanted)
	}
	r.check("query before", func() error { return passes(false) })
	r.check("session before", func() error {
		body := &rest_model.SessionCreate{ServiceID: what, Type: rest_model.DialBindDial}
		_, err := m.api.Session.CreateSession(session.NewCreateSessionParams().WithSession(body), nil)
		return undocumented(err, 409)
	})
	r.check("failed service requests", func() error {
		asked := identity.NewGetIdentityFailedServiceRequestsParams().WithID(m.id)
		answer, err := n.admin.Identity.GetIdentityFailedServiceRequests(asked, nil)
		if err != nil {
			return err
		}
		if len(answer.Payload.Data) != 1 || answer.Payload.Data[0].ServiceID != what {
			return fmt.Errorf("there are %d", len(answer.Payload.Data))
		}
		failed := answer.Payload.Data[0].PolicyFailures[0].Checks()[0]
		if *failed.PostureCheckID() != check {
			return errors.New("it failed for another reason")
		}
		return nil
	})
	domain := &rest_model.PostureResponseDomainCreate{Domain: ptr("example.com")}
	domain.SetID(&check)
	r.check("a response", func() error {
		_, err := m.api.PostureChecks.CreatePostureResponse(posture_checks.NewCreatePostureResponseParams().WithPostureResponse(domain), nil)
		return err
	})
	r.check("query after", func() error { return passes(true) })
	r.check("responses of every type", func() error {
		system := &rest_model.PostureResponseOperatingSystemCreate{Type: ptr("Linux"), Version: ptr("6.1.0"), Build: "1"}
		mac := &rest_model.PostureResponseMacAddressCreate{MacAddresses: []string{"001122334455"}}
		process := &rest_model.PostureResponseProcessCreate{Path: "/usr/bin/one", IsRunning: true, Hash: digest(128), SignerFingerprints: []string{digest(40)}}
		state := &rest_model.PostureResponseEndpointStateCreate{Woken: true, Unlocked: true}
		var all []rest_model.PostureResponseCreate
		for _, response := range []rest_model.PostureResponseCreate{system, mac, process, state} {
			response.SetID(ptr("0"))
			all = append(all, response)
		}
		_, err := m.api.PostureChecks.CreatePostureResponseBulk(posture_checks.NewCreatePostureResponseBulkParams().WithPostureResponse(all), nil)
		return err
	})
	r.check("posture data", func() error {
		answer, err := n.admin.Identity.GetIdentityPostureData(identity.NewGetIdentityPostureDataParams().WithID(m.id), nil)
		if err != nil {
			return err
		}
		return shown(map[string]any{
			"domain": map[string]any{"domain": "example.com"},
			"mac":    map[string]any{"addresses": []string{"001122334455"}},
			"os":     map[string]any{"type": "Linux", "version": "6.1.0", "build": "1"},
		}, answer.Payload.Data)
	})
}
