package main

import (
	management_api "github.com/openziti/edge-api/rest_management_api_client"
	"github.com/openziti/edge-api/rest_management_api_client/edge_router_policy"
	"github.com/openziti/edge-api/rest_management_api_client/service_edge_router_policy"
	"github.com/openziti/edge-api/rest_management_api_client/service_policy"
	"github.com/openziti/edge-api/rest_model"
)

// servicePolicies is the kind of that name for one session.
func servicePolicies(api *management_api.ZitiEdgeManagement) kind[*rest_model.ServicePolicyCreate, *rest_model.ServicePolicyUpdate, *rest_model.ServicePolicyPatch] {
	return kind[*rest_model.ServicePolicyCreate, *rest_model.ServicePolicyUpdate, *rest_model.ServicePolicyPatch]{
		name: "service-policies",
		by:   "name",
		create: func(body *rest_model.ServicePolicyCreate) (string, error) {
			return created(api.ServicePolicy.CreateServicePolicy(service_policy.NewCreateServicePolicyParams().WithPolicy(body), nil))
		},
		detail: func(id string) (any, error) {
			answer, err := api.ServicePolicy.DetailServicePolicy(service_policy.NewDetailServicePolicyParams().WithID(id), nil)
			if err != nil {
				return nil, err
			}
			return answer.Payload.Data, nil
		},
		list: func(q query) (page, error) {
			asked := service_policy.NewListServicePoliciesParams().WithFilter(q.filter).WithLimit(q.limit).WithOffset(q.offset)
			answer, err := api.ServicePolicy.ListServicePolicies(asked, nil)
			if err != nil {
				return page{}, err
			}
			return page{answer.Payload.Data, answer.Payload.Meta}, nil
		},
		update: func(id string, body *rest_model.ServicePolicyUpdate) error {
			_, err := api.ServicePolicy.UpdateServicePolicy(service_policy.NewUpdateServicePolicyParams().WithID(id).WithPolicy(body), nil)
			return err
		},
		patch: func(id string, body *rest_model.ServicePolicyPatch) error {
			_, err := api.ServicePolicy.PatchServicePolicy(service_policy.NewPatchServicePolicyParams().WithID(id).WithPolicy(body), nil)
			return err
		},
		remove: func(id string) error {
			_, err := api.ServicePolicy.DeleteServicePolicy(service_policy.NewDeleteServicePolicyParams().WithID(id), nil)
			return err
		},
	}
}

// edgeRouterPolicies is the kind of that name for one session.
func edgeRouterPolicies(api *management_api.ZitiEdgeManagement) kind[*rest_model.EdgeRouterPolicyCreate, *rest_model.EdgeRouterPolicyUpdate, *rest_model.EdgeRouterPolicyPatch] {
	return kind[*rest_model.EdgeRouterPolicyCreate, *rest_model.EdgeRouterPolicyUpdate, *rest_model.EdgeRouterPolicyPatch]{
		name: "edge-router-policies",
		by:   "name",
		create: func(body *rest_model.EdgeRouterPolicyCreate) (string, error) {
			return created(api.EdgeRouterPolicy.CreateEdgeRouterPolicy(edge_router_policy.NewCreateEdgeRouterPolicyParams().WithPolicy(body), nil))
		},
		detail: func(id string) (any, error) {
			answer, err := api.EdgeRouterPolicy.DetailEdgeRouterPolicy(edge_router_policy.NewDetailEdgeRouterPolicyParams().WithID(id), nil)
			if err != nil {
				return nil, err
			}
			return answer.Payload.Data, nil
		},
		list: func(q query) (page, error) {
			asked := edge_router_policy.NewListEdgeRouterPoliciesParams().WithFilter(q.filter).WithLimit(q.limit).WithOffset(q.offset)
			answer, err := api.EdgeRouterPolicy.ListEdgeRouterPolicies(asked, nil)
			if err != nil {
				return page{}, err
			}
			return page{answer.Payload.Data, answer.Payload.Meta}, nil
		},
		update: func(id string, body *rest_model.EdgeRouterPolicyUpdate) error {
			_, err := api.EdgeRouterPolicy.UpdateEdgeRouterPolicy(edge_router_policy.NewUpdateEdgeRouterPolicyParams().WithID(id).WithPolicy(body), nil)
			return err
		},
		patch: func(id string, body *rest_model.EdgeRouterPolicyPatch) error {
			_, err := api.EdgeRouterPolicy.PatchEdgeRouterPolicy(edge_router_policy.NewPatchEdgeRouterPolicyParams().WithID(id).WithPolicy(body), nil)
			return err
		},
		remove: func(id string) error {
			_, err := api.EdgeRouterPolicy.DeleteEdgeRouterPolicy(edge_router_policy.NewDeleteEdgeRouterPolicyParams().WithID(id), nil)
			return err
		},
	}
}

// serviceEdgeRouterPolicies is the kind of that name for one session.
func serviceEdgeRouterPolicies(api *management_api.ZitiEdgeManagement) kind[*rest_model.ServiceEdgeRouterPolicyCreate, *rest_model.ServiceEdgeRouterPolicyUpdate, *rest_model.ServiceEdgeRouterPolicyPatch] {
	return kind[*rest_model.ServiceEdgeRouterPolicyCreate, *rest_model.ServiceEdgeRouterPolicyUpdate, *rest_model.ServiceEdgeRouterPolicyPatch]{
		name: "service-edge-router-policies",
		by:   "name",
		create: func(body *rest_model.ServiceEdgeRouterPolicyCreate) (string, error) {
			return created(api.ServiceEdgeRouterPolicy.CreateServiceEdgeRouterPolicy(service_edge_router_policy.NewCreateServiceEdgeRouterPolicyParams().WithPolicy(body), nil))
		},
		detail: func(id string) (any, error) {
			answer, err := api.ServiceEdgeRouterPolicy.DetailServiceEdgeRouterPolicy(service_edge_router_policy.NewDetailServiceEdgeRouterPolicyParams().WithID(id), nil)
			if err != nil {
				return nil, err
			}
			return answer.Payload.Data, nil
		},
		list: func(q query) (page, error) {
			asked := service_edge_router_policy.NewListServiceEdgeRouterPoliciesParams().WithFilter(q.filter).WithLimit(q.limit).WithOffset(q.offset)
			answer, err := api.ServiceEdgeRouterPolicy.ListServiceEdgeRouterPolicies(asked, nil)
			if err != nil {
				return page{}, err
			}
			return page{answer.Payload.Data, answer.Payload.Meta}, nil
		},
		update: func(id string, body *rest_model.ServiceEdgeRouterPolicyUpdate) error {
			_, err := api.ServiceEdgeRouterPolicy.UpdateServiceEdgeRouterPolicy(service_edge_router_policy.NewUpdateServiceEdgeRouterPolicyParams().WithID(id).WithPolicy(body), nil)
			return err
		},
		patch: func(id string, body *rest_model.ServiceEdgeRouterPolicyPatch) error {
			_, err := api.ServiceEdgeRouterPolicy.PatchServiceEdgeRouterPolicy(service_edge_router_policy.NewPatchServiceEdgeRouterPolicyParams().WithID(id).WithPolicy(body), nil)
			return err
		},
		remove: func(id string) error {
			_, err := api.ServiceEdgeRouterPolicy.DeleteServiceEdgeRouterPolicy(service_edge_router_policy.NewDeleteServiceEdgeRouterPolicyParams().WithID(id), nil)
			return err
		},
	}
}

func tryServicePolicies(r *report, n *network) {
	who, what, check := n.identity("policy"), n.service("policy"), n.postureCheck("policy")
	try(r, servicePolicies(n.admin), servicePolicies(n.nobody), n.name("service-policy"), bodies[*rest_model.ServicePolicyCreate, *rest_model.ServicePolicyUpdate, *rest_model.ServicePolicyPatch]{
		create: func(name string) *rest_model.ServicePolicyCreate {
			return &rest_model.ServicePolicyCreate{
				Name: &name, Tags: tags(), Type: ptr(rest_model.DialBindDial), Semantic: ptr(rest_model.SemanticAllOf),
				IdentityRoles: n.roles("@"+who, "#web"), ServiceRoles: n.roles("@"+what, "#db"), PostureCheckRoles: n.roles("@"+check, "#safe"),
			}
		},
		update: func(name string) *rest_model.ServicePolicyUpdate {
			return &rest_model.ServicePolicyUpdate{
				Name: &name, Type: ptr(rest_model.DialBindBind), Semantic: ptr(rest_model.SemanticAnyOf),
				IdentityRoles: rest_model.Roles{"#all"}, ServiceRoles: n.roles("@" + what), PostureCheckRoles: rest_model.Roles{},
			}
		},
		patch: func() *rest_model.ServicePolicyPatch {
			return &rest_model.ServicePolicyPatch{Semantic: rest_model.SemanticAnyOf}
		},
		patched: []string{"semantic"},
	})
}

func tryEdgeRouterPolicies(r *report, n *network) {
	who, router := n.identity("router-policy"), n.edgeRouter("router-policy")
	try(r, edgeRouterPolicies(n.admin), edgeRouterPolicies(n.nobody), n.name("edge-router-policy"), bodies[*rest_model.EdgeRouterPolicyCreate, *rest_model.EdgeRouterPolicyUpdate, *rest_model.EdgeRouterPolicyPatch]{
		create: func(name string) *rest_model.EdgeRouterPolicyCreate {
			return &rest_model.EdgeRouterPolicyCreate{
				Name: &name, Tags: tags(), Semantic: ptr(rest_model.SemanticAnyOf),
				IdentityRoles: n.roles("@"+who, "#web"), EdgeRouterRoles: n.roles("@"+router, "#east"),
			}
		},
		update: func(name string) *rest_model.EdgeRouterPolicyUpdate {
			return &rest_model.EdgeRouterPolicyUpdate{
				Name: &name, Semantic: ptr(rest_model.SemanticAllOf),
				IdentityRoles: rest_model.Roles{"#all"}, EdgeRouterRoles: n.roles("#west"),
			}
		},
		patch: func() *rest_model.EdgeRouterPolicyPatch {
			return &rest_model.EdgeRouterPolicyPatch{IdentityRoles: n.roles("#mail")}
		},
		patched: []string{"identityRoles", "identityRolesDisplay"},
	})
}

func tryServiceEdgeRouterPolicies(r *report, n *network) {
	what, router := n.service("service-router-policy"), n.edgeRouter("service-router-policy")
	try(r, serviceEdgeRouterPolicies(n.admin), serviceEdgeRouterPolicies(n.nobody), n.name("service-edge-router-policy"), bodies[*rest_model.ServiceEdgeRouterPolicyCreate, *rest_model.ServiceEdgeRouterPolicyUpdate, *rest_model.ServiceEdgeRouterPolicyPatch]{
		create: func(name string) *rest_model.ServiceEdgeRouterPolicyCreate {
			return &rest_model.ServiceEdgeRouterPolicyCreate{
				Name: &name, Tags: tags(), Semantic: ptr(rest_model.SemanticAnyOf),
				ServiceRoles: n.roles("@"+what, "#web"), EdgeRouterRoles: n.roles("@"+router, "#east"),
			}
		},
		update: func(name string) *rest_model.ServiceEdgeRouterPolicyUpdate {
			return &rest_model.ServiceEdgeRouterPolicyUpdate{
				Name: &name, Semantic: ptr(rest_model.SemanticAllOf),
				ServiceRoles: rest_model.Roles{"#all"}, EdgeRouterRoles: n.roles("#west"),
			}
		},
		patch: func() *rest_model.ServiceEdgeRouterPolicyPatch {
			return &rest_model.ServiceEdgeRouterPolicyPatch{EdgeRouterRoles: rest_model.Roles{"#all"}, Tags: tags("changed")}
		},
		patched: []string{"edgeRouterRoles", "edgeRouterRolesDisplay", "tags"},
	})
}
