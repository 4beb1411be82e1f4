package main

import (
	"errors"
	"fmt"
	"slices"

	"github.com/openziti/edge-api/rest_client_api_client/authentication"
	client_controllers "github.com/openziti/edge-api/rest_client_api_client/controllers"
	"github.com/openziti/edge-api/rest_client_api_client/current_api_session"
	"github.com/openziti/edge-api/rest_client_api_client/external_jwt_signer"
	"github.com/openziti/edge-api/rest_client_api_client/informational"
	"github.com/openziti/edge-api/rest_client_api_client/service"
	"github.com/openziti/edge-api/rest_client_api_client/session"
	"github.com/openziti/edge-api/rest_management_api_client/edge_router"
	"github.com/openziti/edge-api/rest_management_api_client/identity"
	management_session "github.com/openziti/edge-api/rest_management_api_client/session"
	"github.com/openziti/edge-api/rest_model"
)

// tryClientAPI uses the client API the way an SDK does.
func tryClientAPI(r *report, n *network) {
	r.begin("client API")
	m := n.member("client")
	what, end := n.reachable(m)
	if !r.check("authenticate by password", m.login) {
		return
	}
	r.check("what was sent at login", func() error {
		answer, err := n.admin.Identity.DetailIdentity(identity.NewDetailIdentityParams().WithID(m.id), nil)
		if err != nil {
			return err
		}
		return errors.Join(
			shown(map[string]any{"envInfo": map[string]any{"os": "Linux"}, "sdkInfo": map[string]any{"type": "api-go"}}, answer.Payload.Data),
			shown(map[string]any{"hasApiSession": true}, answer.Payload.Data))
	})
	r.check("authenticate with a wrong password", func() error {
		body := &rest_model.Authenticate{Username: rest_model.Username(m.name), Password: "wrong password"}
		_, err := n.client("").Authentication.Authenticate(authentication.NewAuthenticateParams().WithMethod("password").WithAuth(body))
		return refused(err, 401, "INVALID_AUTH", "")
	})
	r.check("current API session", func() error {
		answer, err := m.api.CurrentAPISession.GetCurrentAPISession(nil, nil)
		if err != nil {
			return err
		}
		return unchanged(m.session, answer.Payload.Data, "_links", "lastActivityAt", "cachedLastActivityAt", "expiresAt", "expirationSeconds")
	})
	r.check("current identity", func() error {
		answer, err := m.api.CurrentIdentity.GetCurrentIdentity(nil, nil)
		if err != nil {
			return err
		}
		return errors.Join(identified(answer.Payload.Data, m.id), shown(map[string]any{"name": m.name}, answer.Payload.Data))
	})
	r.check("edge routers of the identity", func() error {
		answer, err := m.api.CurrentIdentity.GetCurrentIdentityEdgeRouters(nil, nil)
		if err == nil && len(answer.Payload.Data) == 0 {
			err = errors.New("there are none")
		}
		return err
	})
	tryServicesOfClient(r, m, what, end)
	trySessions(r, m, what)
	trySessionCertificates(r, m)
	tryOpenToAll(r, m)
	r.check("log out", func() error {
		if _, err := m.api.CurrentAPISession.DeleteCurrentAPISession(nil, nil); err != nil {
			return err
		}
		_, err := m.api.CurrentAPISession.GetCurrentAPISession(nil, nil)
		return refused(err, 401, "UNAUTHORIZED", "")
	})
}

// reachable gives a member a service that it may dial over any router, and that has a config
// and a terminator.
func (n *network) reachable(m *member) (what, end string) {
	name := "reach-" + m.name
	what = n.service(name, n.config(name, n.configType("host.v1"), hostConfig(80)))
	end = n.terminator(name, what, n.edgeRouter(name))
	all := rest_model.Roles{"#all"}
	keep(n, servicePolicies(n.admin), &rest_model.ServicePolicyCreate{
		Name: ptr(n.name(name)), Type: ptr(rest_model.DialBindDial), Semantic: ptr(rest_model.SemanticAnyOf),
		IdentityRoles: n.roles("@" + m.id), ServiceRoles: n.roles("@" + what),
	})
	keep(n, edgeRouterPolicies(n.admin), &rest_model.EdgeRouterPolicyCreate{
		Name: ptr(n.name(name)), Semantic: ptr(rest_model.SemanticAnyOf), IdentityRoles: n.roles("@" + m.id), EdgeRouterRoles: all,
	})
	keep(n, serviceEdgeRouterPolicies(n.admin), &rest_model.ServiceEdgeRouterPolicyCreate{
		Name: ptr(n.name(name)), Semantic: ptr(rest_model.SemanticAnyOf), ServiceRoles: n.roles("@" + what), EdgeRouterRoles: all,
	})
	return what, end
}

// tryServicesOfClient reads the services that a member may use.
func tryServicesOfClient(r *report, m *member, what, end string) {
	r.check("services", func() error {
		answer, err := m.api.Service.ListServices(service.NewListServicesParams(), nil)
		if err != nil {
			return err
		}
		if ids := idsOf(answer.Payload.Data); !slices.Equal(ids, []string{what}) {
			return fmt.Errorf("found %v, not %s", ids, what)
		}
		found := answer.Payload.Data[0]
		if !slices.Equal(found.Permissions, rest_model.DialBindArray{rest_model.DialBindDial}) || len(found.PostureQueries) == 0 {
			return fmt.Errorf("permissions %v, %d sets of queries", found.Permissions, len(found.PostureQueries))
		}
		return shown(hostConfig(80), found.Config["host.v1"])
	})
	r.check("service", func() error {
		answer, err := m.api.Service.DetailService(service.NewDetailServiceParams().WithID(what), nil)
		if err != nil {
			return err
		}
		return identified(answer.Payload.Data, what)
	})
	r.check("service that is none", func() error {
		_, err := m.api.Service.DetailService(service.NewDetailServiceParams().WithID("nothing"), nil)
		return refused(err, 404, "NOT_FOUND", "")
	})
	r.check("terminators of a service", func() error {
		found, err := listed(m.api.Service.ListServiceTerminators(service.NewListServiceTerminatorsParams().WithID(what), nil))
		if err == nil && !slices.Equal(found, []string{end}) {
			err = fmt.Errorf("found %v, not %s", found, end)
		}
		return err
	})
	r.check("edge routers of a service", func() error {
		_, err := m.api.Service.ListServiceEdgeRouters(service.NewListServiceEdgeRoutersParams().WithID(what), nil)
		return err
	})
	r.check("service updates", func() error {
		_, err := m.api.CurrentAPISession.ListServiceUpdates(nil, nil)
		return err
	})
	// The original lists these three operations and never implemented them; its clients do not know the answer.
	never := map[string]func() error{
		"updateService": func() error {
			_, err := m.api.Service.UpdateService(service.NewUpdateServiceParams().WithID(what).WithService(&rest_model.ServiceUpdate{Name: &m.name}), nil)
			return err
		},
		"patchService": func() error {
			_, err := m.api.Service.PatchService(service.NewPatchServiceParams().WithID(what).WithService(&rest_model.ServicePatch{}), nil)
			return err
		},
		"deleteService": func() error {
			_, err := m.api.Service.DeleteService(service.NewDeleteServiceParams().WithID(what), nil)
			return err
		},
	}
	for _, name := range sorted(keysOf(never)...) {
		r.check(name, func() error {
			return m.n.calls.never(client, name, never[name](), 501)
		})
	}
}

// trySessions opens sessions for a service, which both APIs show and end.
func trySessions(r *report, m *member, what string) {
	admin := m.n.admin.Session
	create := func() (*rest_model.SessionDetail, error) {
		body := &rest_model.SessionCreate{ServiceID: what, Type: rest_model.DialBindDial}
		answer, err := m.api.Session.CreateSession(session.NewCreateSessionParams().WithSession(body), nil)
		if err != nil {
			return nil, err
		}
		return answer.Payload.Data, nil
	}
	var id string
	made := r.check("create session", func() error {
		opened, err := create()
		if err != nil {
			return err
		}
		id = *opened.ID
		if *opened.ServiceID != what || *opened.Type != rest_model.DialBindDial || *opened.Token == "" {
			return fmt.Errorf("got %+v", *opened)
		}
		return nil
	})
	if !made {
		return
	}
	r.check("create session for nothing", func() error {
		body := &rest_model.SessionCreate{ServiceID: "nothing", Type: rest_model.DialBindDial}
		_, err := m.api.Session.CreateSession(session.NewCreateSessionParams().WithSession(body), nil)
		return refused(err, 404, "NOT_FOUND", "")
	})
	r.check("session", func() error {
		answer, err := m.api.Session.DetailSession(session.NewDetailSessionParams().WithID(id), nil)
		if err != nil {
			return err
		}
		return identified(answer.Payload.Data, id)
	})
	ours := ptr(fmt.Sprintf("id = %q", id))
	checkLists(r, []listing{
		{"sessions", func() ([]string, error) {
			return listed(m.api.Session.ListSessions(session.NewListSessionsParams().WithFilter(ours), nil))
		}, []string{id}},
		{"sessions (management)", func() ([]string, error) {
			return listed(admin.ListSessions(management_session.NewListSessionsParams().WithFilter(ours), nil))
		}, []string{id}},
	})
	r.check("session (management)", func() error {
		answer, err := admin.DetailSession(management_session.NewDetailSessionParams().WithID(id), nil)
		if err != nil {
			return err
		}
		return shown(map[string]any{"id": id, "serviceId": what, "identityId": m.id, "apiSessionId": *m.session.ID}, answer.Payload.Data)
	})
	r.check("route path of a session", func() error {
		answer, err := admin.DetailSessionRoutePath(management_session.NewDetailSessionRoutePathParams().WithID(id), nil)
		if err == nil && len(answer.Payload.Data.RoutePath) != 0 {
			err = fmt.Errorf("got %v", answer.Payload.Data.RoutePath)
		}
		return err
	})
	r.check("delete session", func() error {
		if _, err := m.api.Session.DeleteSession(session.NewDeleteSessionParams().WithID(id), nil); err != nil {
			return err
		}
		_, err := m.api.Session.DetailSession(session.NewDetailSessionParams().WithID(id), nil)
		return refused(err, 404, "NOT_FOUND", "")
	})
	r.check("delete session (management)", func() error {
		again, err := create()
		if err != nil {
			return err
		}
		if _, err := admin.DeleteSession(management_session.NewDeleteSessionParams().WithID(*again.ID), nil); err != nil {
			return err
		}
		_, err = admin.DetailSession(management_session.NewDetailSessionParams().WithID(*again.ID), nil)
		return refused(err, 404, "NOT_FOUND", "")
	})
}

// trySessionCertificates has a certificate made for a session, and takes it back.
func trySessionCertificates(r *report, m *member) {
	api := m.api.CurrentAPISession
	var id string
	made := r.check("create session certificate", func() error {
		body := &rest_model.CurrentAPISessionCertificateCreate{Csr: ptr(request(m.name, newKey()))}
		asked := current_api_session.NewCreateCurrentAPISessionCertificateParams().WithSessionCertificate(body)
		answer, err := api.CreateCurrentAPISessionCertificate(asked, nil)
		if err != nil {
			return err
		}
		id = answer.Payload.Data.ID
		if len(certificates(*answer.Payload.Data.Certificate)) == 0 || len(certificates(answer.Payload.Data.Cas)) == 0 {
			return errors.New("there are no certificates in it")
		}
		return nil
	})
	if !made {
		return
	}
	checkLists(r, []listing{{"session certificates", func() ([]string, error) {
		asked := current_api_session.NewListCurrentAPISessionCertificatesParams()
		return listed(api.ListCurrentAPISessionCertificates(asked, nil))
	}, []string{id}}})
	detail := func() error {
		_, err := api.DetailCurrentAPISessionCertificate(current_api_session.NewDetailCurrentAPISessionCertificateParams().WithID(id), nil)
		return err
	}
	r.check("session certificate", detail)
	r.check("delete session certificate", func() error {
		asked := current_api_session.NewDeleteCurrentAPISessionCertificateParams().WithID(id)
		if _, err := api.DeleteCurrentAPISessionCertificate(asked, nil); err != nil {
			return err
		}
		return refused(detail(), 404, "NOT_FOUND", "")
	})
}

// tryOpenToAll runs the operations that need no session.
func tryOpenToAll(r *report, m *member) {
	nobody := m.n.client("")
	r.check("version", func() error {
		answer, err := nobody.Informational.ListVersion(nil)
		if err != nil {
			return err
		}
		return speaks(answer.Payload.Data)
	})
	r.check("root", func() error {
		answer, err := nobody.Informational.ListRoot(nil)
		if err != nil {
			return err
		}
		return speaks(answer.Payload.Data)
	})
	calls := map[string]func() error{
		"capabilities":        func() error { _, err := nobody.Informational.ListEnumeratedCapabilities(nil); return err },
		"router capabilities": func() error { _, err := m.api.Informational.ListEnumeratedRouterCapabilities(nil, nil); return err },
		"protocols":           func() error { _, err := nobody.Informational.ListProtocols(nil); return err },
		"specs":               func() error { _, err := nobody.Informational.ListSpecs(nil); return err },
		"spec": func() error {
			_, err := nobody.Informational.DetailSpec(informational.NewDetailSpecParams().WithID("edge-client"))
			return err
		},
		"body of a spec": func() error {
			_, err := nobody.Informational.DetailSpecBody(informational.NewDetailSpecBodyParams().WithID("edge-client"))
			return err
		},
		"CA certificates": func() error { _, err := nobody.WellKnown.ListWellKnownCas(nil); return err },
		"network JWTs":    func() error { _, err := nobody.Enrollment.ListNetworkJWTs(nil); return err },
		"signers": func() error {
			_, err := nobody.ExternalJWTSigner.ListExternalJWTSigners(external_jwt_signer.NewListExternalJWTSignersParams())
			return err
		},
		"controllers": func() error {
			_, err := m.api.Controllers.ListControllers(client_controllers.NewListControllersParams(), nil)
			return err
		},
	}
	for _, name := range sorted(keysOf(calls)...) {
		r.check(name, calls[name])
	}
}

// onlineRouter is the id of a connected router, or empty.
func (n *network) onlineRouter() string {
	answer, err := n.admin.EdgeRouter.ListEdgeRouters(edge_router.NewListEdgeRoutersParams(), nil)
	if err != nil {
		return ""
	}
	for _, router := range answer.Payload.Data {
		if *router.IsOnline {
			return *router.ID
		}
	}
	return ""
}
