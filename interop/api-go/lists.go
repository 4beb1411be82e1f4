package main

import (
	"fmt"
	"slices"

	"github.com/openziti/edge-api/rest_management_api_client/config"
	"github.com/openziti/edge-api/rest_management_api_client/edge_router"
	"github.com/openziti/edge-api/rest_management_api_client/edge_router_policy"
	"github.com/openziti/edge-api/rest_management_api_client/identity"
	"github.com/openziti/edge-api/rest_management_api_client/service"
	"github.com/openziti/edge-api/rest_management_api_client/service_edge_router_policy"
	"github.com/openziti/edge-api/rest_management_api_client/service_policy"
	"github.com/openziti/edge-api/rest_model"
)

// A listing is a list below an entity, and what must be in it.
type listing struct {
	name string
	ids  func() ([]string, error)
	want []string
}

// listed are the ids in the answer to a list operation.
func listed[P any, A interface{ GetPayload() P }](answer A, err error) ([]string, error) {
	if err != nil {
		return nil, err
	}
	payload, err := plain(answer.GetPayload())
	if err != nil {
		return nil, err
	}
	return idsOf(at(payload, "data")), nil
}

func checkLists(r *report, listings []listing) {
	for _, listing := range listings {
		r.check("list "+listing.name, func() error {
			found, err := listing.ids()
			if err != nil {
				return err
			}
			if !slices.Equal(sorted(found...), sorted(listing.want...)) {
				return fmt.Errorf("found %v, not %v", found, listing.want)
			}
			return nil
		})
	}
}

// tryLists asks for the lists below entities, in both directions, in a network with one entity of each kind.
func tryLists(r *report, n *network) {
	r.begin("lists below entities")
	who, router, check := n.identity("lists"), n.edgeRouter("lists"), n.postureCheck("lists")
	of := n.configType("host.v1")
	data := n.config("lists", of, hostConfig(80))
	what := n.service("lists", data)
	end := n.terminator("lists", what, router)
	dial := keep(n, servicePolicies(n.admin), &rest_model.ServicePolicyCreate{
		Name: ptr(n.name("lists")), Type: ptr(rest_model.DialBindDial), Semantic: ptr(rest_model.SemanticAllOf),
		IdentityRoles: n.roles("#for-lists"), ServiceRoles: n.roles("@" + what), PostureCheckRoles: n.roles("@" + check),
	})
	edge := keep(n, edgeRouterPolicies(n.admin), &rest_model.EdgeRouterPolicyCreate{
		Name: ptr(n.name("lists")), Semantic: ptr(rest_model.SemanticAllOf),
		IdentityRoles: n.roles("@" + who), EdgeRouterRoles: n.roles("@" + router),
	})
	serving := keep(n, serviceEdgeRouterPolicies(n.admin), &rest_model.ServiceEdgeRouterPolicyCreate{
		Name: ptr(n.name("lists")), Semantic: ptr(rest_model.SemanticAllOf),
		ServiceRoles: n.roles("#for-lists"), EdgeRouterRoles: n.roles("@" + router),
	})
	ours := fmt.Sprintf("id in [%q, %q, %q, %q, %q, %q]", dial, edge, serving, who, router, what)
	theirs := ptr("Dial")

	c, s, e, i := n.admin.Config, n.admin.Service, n.admin.EdgeRouter, n.admin.Identity
	ep, sp, sep := n.admin.EdgeRouterPolicy, n.admin.ServicePolicy, n.admin.ServiceEdgeRouterPolicy
	checkLists(r, []listing{
		{"configs/services", func() ([]string, error) {
			return listed(c.ListConfigServices(config.NewListConfigServicesParams().WithID(data), nil))
		}, []string{what}},
		{"services/configs", func() ([]string, error) {
			return listed(s.ListServiceConfig(service.NewListServiceConfigParams().WithID(what), nil))
		}, []string{data}},
		{"services/edge-routers", func() ([]string, error) {
			return listed(s.ListServiceEdgeRouters(service.NewListServiceEdgeRoutersParams().WithID(what).WithFilter(&ours), nil))
		}, []string{router}},
		{"services/identities", func() ([]string, error) {
			return listed(s.ListServiceIdentities(service.NewListServiceIdentitiesParams().WithID(what).WithFilter(&ours).WithPolicyType(theirs), nil))
		}, []string{who}},
		{"services/service-edge-router-policies", func() ([]string, error) {
			asked := service.NewListServiceServiceEdgeRouterPoliciesParams().WithID(what).WithFilter(&ours)
			return listed(s.ListServiceServiceEdgeRouterPolicies(asked, nil))
		}, []string{serving}},
		{"services/service-policies", func() ([]string, error) {
			asked := service.NewListServiceServicePoliciesParams().WithID(what).WithFilter(&ours)
			return listed(s.ListServiceServicePolicies(asked, nil))
		}, []string{dial}},
		{"services/terminators", func() ([]string, error) {
			return listed(s.ListServiceTerminators(service.NewListServiceTerminatorsParams().WithID(what), nil))
		}, []string{end}},
		{"edge-routers/edge-router-policies", func() ([]string, error) {
			asked := edge_router.NewListEdgeRouterEdgeRouterPoliciesParams().WithID(router)
			return only(edge)(listed(e.ListEdgeRouterEdgeRouterPolicies(asked, nil)))
		}, []string{edge}},
		{"edge-routers/identities", func() ([]string, error) {
			return only(who)(listed(e.ListEdgeRouterIdentities(edge_router.NewListEdgeRouterIdentitiesParams().WithID(router), nil)))
		}, []string{who}},
		{"edge-routers/service-edge-router-policies", func() ([]string, error) {
			asked := edge_router.NewListEdgeRouterServiceEdgeRouterPoliciesParams().WithID(router)
			return only(serving)(listed(e.ListEdgeRouterServiceEdgeRouterPolicies(asked, nil)))
		}, []string{serving}},
		{"edge-routers/services", func() ([]string, error) {
			return only(what)(listed(e.ListEdgeRouterServices(edge_router.NewListEdgeRouterServicesParams().WithID(router), nil)))
		}, []string{what}},
		{"identities/edge-router-policies", func() ([]string, error) {
			asked := identity.NewListIdentitysEdgeRouterPoliciesParams().WithID(who)
			return only(edge)(listed(i.ListIdentitysEdgeRouterPolicies(asked, nil)))
		}, []string{edge}},
		{"identities/edge-routers", func() ([]string, error) {
			return only(router)(listed(i.ListIdentityEdgeRouters(identity.NewListIdentityEdgeRoutersParams().WithID(who), nil)))
		}, []string{router}},
		{"identities/service-policies", func() ([]string, error) {
			return only(dial)(listed(i.ListIdentityServicePolicies(identity.NewListIdentityServicePoliciesParams().WithID(who), nil)))
		}, []string{dial}},
		{"identities/services", func() ([]string, error) {
			return listed(i.ListIdentityServices(identity.NewListIdentityServicesParams().WithID(who).WithFilter(&ours).WithPolicyType(theirs), nil))
		}, []string{what}},
		{"edge-router-policies/edge-routers", func() ([]string, error) {
			return listed(ep.ListEdgeRouterPolicyEdgeRouters(edge_router_policy.NewListEdgeRouterPolicyEdgeRoutersParams().WithID(edge), nil))
		}, []string{router}},
		{"edge-router-policies/identities", func() ([]string, error) {
			return listed(ep.ListEdgeRouterPolicyIdentities(edge_router_policy.NewListEdgeRouterPolicyIdentitiesParams().WithID(edge), nil))
		}, []string{who}},
		{"service-policies/identities", func() ([]string, error) {
			return listed(sp.ListServicePolicyIdentities(service_policy.NewListServicePolicyIdentitiesParams().WithID(dial), nil))
		}, []string{who}},
		{"service-policies/services", func() ([]string, error) {
			return listed(sp.ListServicePolicyServices(service_policy.NewListServicePolicyServicesParams().WithID(dial), nil))
		}, []string{what}},
		{"service-policies/posture-checks", func() ([]string, error) {
			return listed(sp.ListServicePolicyPostureChecks(service_policy.NewListServicePolicyPostureChecksParams().WithID(dial), nil))
		}, []string{check}},
		{"service-edge-router-policies/edge-routers", func() ([]string, error) {
			asked := service_edge_router_policy.NewListServiceEdgeRouterPolicyEdgeRoutersParams().WithID(serving)
			return listed(sep.ListServiceEdgeRouterPolicyEdgeRouters(asked, nil))
		}, []string{router}},
		{"service-edge-router-policies/services", func() ([]string, error) {
			asked := service_edge_router_policy.NewListServiceEdgeRouterPolicyServicesParams().WithID(serving)
			return listed(sep.ListServiceEdgeRouterPolicyServices(asked, nil))
		}, []string{what}},
		{"config-types/configs", func() ([]string, error) {
			return only(data)(listed(c.ListConfigsForConfigType(config.NewListConfigsForConfigTypeParams().WithID(of), nil)))
		}, []string{data}},
		{"identities by roleFilter", func() ([]string, error) {
			asked := identity.NewListIdentitiesParams().WithRoleFilter(n.roles("#for-lists")).WithRoleSemantic(ptr("AllOf"))
			return listed(i.ListIdentities(asked, nil))
		}, []string{who}},
		{"services by roleFilter", func() ([]string, error) {
			return listed(s.ListServices(service.NewListServicesParams().WithRoleFilter(n.roles("#for-lists")).WithRoleSemantic(ptr("AnyOf")), nil))
		}, []string{what}},
		{"edge-routers by roleFilter", func() ([]string, error) {
			return listed(e.ListEdgeRouters(edge_router.NewListEdgeRoutersParams().WithRoleFilter(n.roles("@"+router)), nil))
		}, []string{router}},
	})
	r.check("list services/terminators of nothing", func() error {
		found, err := listed(s.ListServiceTerminators(service.NewListServiceTerminatorsParams().WithID("nothing"), nil))
		if err == nil && len(found) > 0 {
			err = fmt.Errorf("found %v", found)
		}
		return err
	})
	r.check("list identities/services of nothing", func() error {
		_, err := i.ListIdentityServices(identity.NewListIdentityServicesParams().WithID("nothing"), nil)
		return refused(err, 404, "NOT_FOUND", "")
	})
}

// only leaves out all but one id, for lists that take no filter and where a network that runs
// already may have others.
func only(id string) func([]string, error) ([]string, error) {
	return func(found []string, err error) ([]string, error) {
		return slices.DeleteFunc(found, func(other string) bool { return other != id }), err
	}
}
