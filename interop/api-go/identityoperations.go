package main

import (
	"errors"
	"fmt"

	"github.com/openziti/edge-api/rest_management_api_client/edge_router"
	"github.com/openziti/edge-api/rest_management_api_client/identity"
	"github.com/openziti/edge-api/rest_model"
)

// tryIdentityOperations runs the operations on one identity other than changes.
func tryIdentityOperations(r *report, n *network) {
	r.begin("operations of identities")
	api := n.admin.Identity
	who, router := n.identity("operations"), n.edgeRouter("operations")
	data := n.config("operations", n.configType("host.v1"), hostConfig(80))
	what := n.service("operations")

	tryServiceConfigs(r, n, who, what, data)
	tryAdvice(r, n, who, what, router)
	r.check("trace", func() error {
		spec := &rest_model.TraceSpec{Enabled: true, Duration: "5m", TraceID: n.name("trace"), Channels: []string{"all"}}
		answer, err := api.UpdateIdentityTracing(identity.NewUpdateIdentityTracingParams().WithID(who).WithTraceSpec(spec), nil)
		if err != nil {
			return err
		}
		return shown(map[string]any{"enabled": true, "traceId": n.name("trace")}, answer.Payload.Data)
	})
	r.check("disable", func() error {
		body := &rest_model.DisableParams{DurationMinutes: ptr(int64(5))}
		if _, err := api.DisableIdentity(identity.NewDisableIdentityParams().WithID(who).WithDisable(body), nil); err != nil {
			return err
		}
		return n.identityIs(who, map[string]any{"disabled": true})
	})
	r.check("enable", func() error {
		if _, err := api.EnableIdentity(identity.NewEnableIdentityParams().WithID(who), nil); err != nil {
			return err
		}
		return n.identityIs(who, map[string]any{"disabled": false})
	})
	r.check("posture data", func() error {
		answer, err := api.GetIdentityPostureData(identity.NewGetIdentityPostureDataParams().WithID(who), nil)
		if err == nil && len(answer.Payload.Data.Processes) != 0 {
			err = errors.New("there are processes")
		}
		return err
	})
	r.check("failed service requests", func() error {
		asked := identity.NewGetIdentityFailedServiceRequestsParams().WithID(who)
		answer, err := api.GetIdentityFailedServiceRequests(asked, nil)
		if err == nil && len(answer.Payload.Data) != 0 {
			err = errors.New("there are some")
		}
		return err
	})
	r.check("removal of MFA", func() error {
		_, err := api.RemoveIdentityMfa(identity.NewRemoveIdentityMfaParams().WithID(who), nil)
		return err
	})
	refusals := map[string]func() error{
		"trace": func() error {
			_, err := api.UpdateIdentityTracing(identity.NewUpdateIdentityTracingParams().WithID("nothing").WithTraceSpec(&rest_model.TraceSpec{}), nil)
			return err
		},
		"disable": func() error {
			body := &rest_model.DisableParams{DurationMinutes: ptr(int64(0))}
			_, err := api.DisableIdentity(identity.NewDisableIdentityParams().WithID("nothing").WithDisable(body), nil)
			return err
		},
		"enable": func() error {
			_, err := api.EnableIdentity(identity.NewEnableIdentityParams().WithID("nothing"), nil)
			return err
		},
		"posture data": func() error {
			_, err := api.GetIdentityPostureData(identity.NewGetIdentityPostureDataParams().WithID("nothing"), nil)
			return err
		},
		"policy advice": func() error {
			_, err := api.GetIdentityPolicyAdvice(identity.NewGetIdentityPolicyAdviceParams().WithID(who).WithServiceID("nothing"), nil)
			return err
		},
	}
	for _, name := range sorted(keysOf(refusals)...) {
		r.check(name+" of nothing", func() error { return refused(refusals[name](), 404, "NOT_FOUND", "") })
	}
	r.check("re-enroll of an edge router", func() error {
		_, err := n.admin.EdgeRouter.ReEnrollEdgeRouter(edge_router.NewReEnrollEdgeRouterParams().WithID(router), nil)
		return err
	})
}

// identityIs fails unless an identity's detail has these members.
func (n *network) identityIs(id string, members map[string]any) error {
	entity, err := identities(n.admin).detail(id)
	if err != nil {
		return err
	}
	return shown(members, entity)
}

// tryServiceConfigs gives an identity a config of its own for a service, and takes it back.
func tryServiceConfigs(r *report, n *network, who, what, data string) {
	api := n.admin.Identity
	pairs := rest_model.ServiceConfigsAssignList{{ConfigID: &data, ServiceID: &what}}
	count := func(wanted int) error {
		answer, err := api.ListIdentitysServiceConfigs(identity.NewListIdentitysServiceConfigsParams().WithID(who), nil)
		if err != nil {
			return err
		}
		if len(answer.Payload.Data) != wanted {
			return fmt.Errorf("there are %d, not %d", len(answer.Payload.Data), wanted)
		}
		for _, pair := range answer.Payload.Data {
			if *pair.ConfigID != data || *pair.ServiceID != what || pair.Config.ID != data || pair.Service.ID != what {
				return fmt.Errorf("a pair of %s and %s", *pair.ServiceID, *pair.ConfigID)
			}
		}
		return nil
	}
	r.check("associate service configs", func() error {
		_, err := api.AssociateIdentitysServiceConfigs(identity.NewAssociateIdentitysServiceConfigsParams().WithID(who).WithServiceConfigs(pairs), nil)
		return err
	})
	r.check("service configs", func() error { return count(1) })
	r.check("disassociate service configs", func() error {
		asked := identity.NewDisassociateIdentitysServiceConfigsParams().WithID(who).WithServiceConfigIDPairs(pairs)
		_, err := api.DisassociateIdentitysServiceConfigs(asked, nil)
		return err
	})
	r.check("service configs after that", func() error { return count(0) })
}

// tryAdvice asks why an identity may not use a service, before and after policies are made.
func tryAdvice(r *report, n *network, who, what, router string) {
	advice := func() (*rest_model.PolicyAdvice, error) {
		asked := identity.NewGetIdentityPolicyAdviceParams().WithID(who).WithServiceID(what)
		answer, err := n.admin.Identity.GetIdentityPolicyAdvice(asked, nil)
		if err != nil {
			return nil, err
		}
		return answer.Payload.Data, nil
	}
	r.check("policy advice without policies", func() error {
		given, err := advice()
		if err != nil {
			return err
		}
		if given.IsBindAllowed || given.IdentityID != who || given.ServiceID != what {
			return fmt.Errorf("got %+v", *given)
		}
		return nil
	})
	r.check("policy advice", func() error {
		keep(n, servicePolicies(n.admin), &rest_model.ServicePolicyCreate{
			Name: ptr(n.name("advice")), Type: ptr(rest_model.DialBindBind), Semantic: ptr(rest_model.SemanticAnyOf),
			IdentityRoles: n.roles("@" + who), ServiceRoles: n.roles("@" + what),
		})
		keep(n, edgeRouterPolicies(n.admin), &rest_model.EdgeRouterPolicyCreate{
			Name: ptr(n.name("advice")), Semantic: ptr(rest_model.SemanticAnyOf),
			IdentityRoles: n.roles("@" + who), EdgeRouterRoles: n.roles("@" + router),
		})
		keep(n, serviceEdgeRouterPolicies(n.admin), &rest_model.ServiceEdgeRouterPolicyCreate{
			Name: ptr(n.name("advice")), Semantic: ptr(rest_model.SemanticAnyOf),
			ServiceRoles: n.roles("@" + what), EdgeRouterRoles: n.roles("@" + router),
		})
		given, err := advice()
		if err != nil {
			return err
		}
		common := false
		for _, shared := range given.CommonRouters {
			common = common || shared.ID == router && !*shared.IsOnline
		}
		if !given.IsBindAllowed || !common || given.IdentityRouterCount < 1 || given.ServiceRouterCount < 1 {
			return fmt.Errorf("got %+v", *given)
		}
		return nil
	})
}
