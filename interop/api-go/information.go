package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/openziti/edge-api/rest_management_api_client/controllers"
	"github.com/openziti/edge-api/rest_management_api_client/identity"
	"github.com/openziti/edge-api/rest_management_api_client/informational"
	"github.com/openziti/edge-api/rest_management_api_client/posture_checks"
	"github.com/openziti/edge-api/rest_management_api_client/role_attributes"
	"github.com/openziti/edge-api/rest_model"
)

// tryInformation asks for a controller's information about itself, which needs no login.
func tryInformation(r *report, n *network) {
	r.begin("version, specs, capabilities")
	api := n.nobody.Informational
	r.check("version", func() error {
		answer, err := api.ListVersion(nil)
		if err != nil {
			return err
		}
		return speaks(answer.Payload.Data)
	})
	r.check("root", func() error {
		answer, err := api.ListRoot(nil)
		if err != nil {
			return err
		}
		return speaks(answer.Payload.Data)
	})
	r.check("capabilities", func() error {
		answer, err := api.ListEnumeratedCapabilities(nil)
		if err == nil && !slices.Contains(answer.Payload.Data, rest_model.CapabilitiesOIDCAUTH) {
			err = fmt.Errorf("got %v", answer.Payload.Data)
		}
		return err
	})
	r.check("router capabilities", func() error {
		answer, err := n.admin.Informational.ListEnumeratedRouterCapabilities(nil, nil)
		if err == nil && !slices.Contains(answer.Payload.Data, rest_model.RouterCapabilitiesMULTICHANNEL) {
			err = fmt.Errorf("got %v", answer.Payload.Data)
		}
		return err
	})
	r.check("specs", func() error {
		answer, err := api.ListSpecs(nil)
		if err != nil {
			return err
		}
		if ids := idsOf(answer.Payload.Data); !slices.Contains(ids, "edge-management") {
			return fmt.Errorf("got %v", ids)
		}
		return nil
	})
	r.check("spec", func() error {
		answer, err := api.DetailSpec(informational.NewDetailSpecParams().WithID("edge-management"))
		if err != nil {
			return err
		}
		return identified(answer.Payload.Data, "edge-management")
	})
	r.check("body of a spec", func() error {
		_, err := api.DetailSpecBody(informational.NewDetailSpecBodyParams().WithID("edge-management"))
		return err
	})
	r.check("CA certificates", func() error {
		answer, err := n.nobody.WellKnown.ListWellKnownCas(nil)
		if err == nil && answer.Payload == "" {
			err = errors.New("there are none")
		}
		return err
	})
	r.check("summary", func() error {
		answer, err := n.admin.Informational.ListSummary(nil, nil)
		if err != nil {
			return err
		}
		for _, kind := range []string{"apiSessions", "identities", "configTypes", "edgeRouterPolicies"} {
			if answer.Payload.Data[kind] == 0 {
				return fmt.Errorf("no %s in %v", kind, answer.Payload.Data)
			}
		}
		return nil
	})
	r.check("summary for nobody", func() error {
		_, err := api.ListSummary(nil, nil)
		return refused(err, 401, "UNAUTHORIZED", "")
	})
	r.check("controllers", func() error {
		_, err := n.admin.Controllers.ListControllers(controllers.NewListControllersParams(), nil)
		return err
	})
}

// speaks fails unless a version names the APIs that the clients use.
func speaks(version *rest_model.Version) error {
	if !strings.HasPrefix(version.Version, "v") {
		return fmt.Errorf("the version is %q", version.Version)
	}
	for _, api := range []string{"edge", "edge-client", "edge-management", "fabric"} {
		if version.APIVersions[api]["v1"].Path == nil {
			return fmt.Errorf("no %s in %v", api, version.APIVersions)
		}
	}
	return nil
}

// tryTypes asks for the entities that every network has.
func tryTypes(r *report, n *network) {
	r.begin("identity and posture check types")
	r.check("identity types", func() error {
		answer, err := n.admin.Identity.ListIdentityTypes(identity.NewListIdentityTypesParams().WithFilter(ptr(`name = "Router"`)), nil)
		if err != nil {
			return err
		}
		if names := idsOf(answer.Payload.Data); !slices.Equal(names, []string{"Router"}) {
			return fmt.Errorf("got %v", names)
		}
		return nil
	})
	r.check("identity type", func() error {
		answer, err := n.admin.Identity.DetailIdentityType(identity.NewDetailIdentityTypeParams().WithID("Default"), nil)
		if err != nil {
			return err
		}
		return identified(answer.Payload.Data, "Default")
	})
	r.check("identity type that is none", func() error {
		_, err := n.admin.Identity.DetailIdentityType(identity.NewDetailIdentityTypeParams().WithID("None"), nil)
		return refused(err, 404, "NOT_FOUND", "")
	})
	r.check("posture check types", func() error {
		answer, err := n.admin.PostureChecks.ListPostureCheckTypes(posture_checks.NewListPostureCheckTypesParams(), nil)
		if err != nil {
			return err
		}
		if ids := idsOf(answer.Payload.Data); len(ids) != 5 {
			return fmt.Errorf("got %v", ids)
		}
		return nil
	})
	r.check("posture check type", func() error {
		answer, err := n.admin.PostureChecks.DetailPostureCheckType(posture_checks.NewDetailPostureCheckTypeParams().WithID("OS"), nil)
		if err != nil {
			return err
		}
		return identified(answer.Payload.Data, "OS")
	})
}

// tryRoleAttributes finds the attributes of each kind that has some, and who has them.
func tryRoleAttributes(r *report, n *network) {
	r.begin("role attributes")
	who, what := n.identity("attributes"), n.service("attributes")
	router := keep(n, edgeRouters(n.admin), &rest_model.EdgeRouterCreate{Name: ptr(n.name("attributes")), RoleAttributes: n.attributes("for-attributes")})
	body := &rest_model.PostureCheckDomainCreate{Domains: []string{"example.com"}}
	describePosture(body, n.name("attributes"), n.attributes("for-attributes"), nil)
	check := keep(n, postureChecks(n.admin), rest_model.PostureCheckCreate(body))

	api := n.admin.RoleAttributes
	ours := ptr(fmt.Sprintf("id contains %q", n.name("for-attributes")))
	lists := []struct {
		name  string
		list  func() (rest_model.RoleAttributesList, error)
		usage func() (rest_model.RoleAttributeUsageList, error)
		id    string
	}{
		{"identities", func() (rest_model.RoleAttributesList, error) {
			answer, err := api.ListIdentityRoleAttributes(role_attributes.NewListIdentityRoleAttributesParams().WithFilter(ours), nil)
			if err != nil {
				return nil, err
			}
			return answer.Payload.Data, nil
		}, func() (rest_model.RoleAttributeUsageList, error) {
			answer, err := api.ListIdentityRoleAttributeUsage(role_attributes.NewListIdentityRoleAttributeUsageParams().WithFilter(ours).WithWithIds(ptr(true)), nil)
			if err != nil {
				return nil, err
			}
			return answer.Payload.Data, nil
		}, who},
		{"services", func() (rest_model.RoleAttributesList, error) {
			answer, err := api.ListServiceRoleAttributes(role_attributes.NewListServiceRoleAttributesParams().WithFilter(ours), nil)
			if err != nil {
				return nil, err
			}
			return answer.Payload.Data, nil
		}, func() (rest_model.RoleAttributeUsageList, error) {
			answer, err := api.ListServiceRoleAttributeUsage(role_attributes.NewListServiceRoleAttributeUsageParams().WithFilter(ours).WithWithIds(ptr(true)), nil)
			if err != nil {
				return nil, err
			}
			return answer.Payload.Data, nil
		}, what},
		{"edge routers", func() (rest_model.RoleAttributesList, error) {
			answer, err := api.ListEdgeRouterRoleAttributes(role_attributes.NewListEdgeRouterRoleAttributesParams().WithFilter(ours), nil)
			if err != nil {
				return nil, err
			}
			return answer.Payload.Data, nil
		}, func() (rest_model.RoleAttributeUsageList, error) {
			answer, err := api.ListEdgeRouterRoleAttributeUsage(role_attributes.NewListEdgeRouterRoleAttributeUsageParams().WithFilter(ours).WithWithIds(ptr(true)), nil)
			if err != nil {
				return nil, err
			}
			return answer.Payload.Data, nil
		}, router},
		{"posture checks", func() (rest_model.RoleAttributesList, error) {
			answer, err := api.ListPostureCheckRoleAttributes(role_attributes.NewListPostureCheckRoleAttributesParams().WithFilter(ours), nil)
			if err != nil {
				return nil, err
			}
			return answer.Payload.Data, nil
		}, func() (rest_model.RoleAttributeUsageList, error) {
			answer, err := api.ListPostureCheckRoleAttributeUsage(role_attributes.NewListPostureCheckRoleAttributeUsageParams().WithFilter(ours).WithWithIds(ptr(true)), nil)
			if err != nil {
				return nil, err
			}
			return answer.Payload.Data, nil
		}, check},
	}
	for _, of := range lists {
		r.check("of "+of.name, func() error {
			found, err := of.list()
			if err == nil && !slices.Equal(found, rest_model.RoleAttributesList{n.name("for-attributes")}) {
				err = fmt.Errorf("found %v", found)
			}
			return err
		})
		r.check("usage by "+of.name, func() error {
			found, err := of.usage()
			if err != nil {
				return err
			}
			if len(found) != 1 || *found[0].RoleAttribute != n.name("for-attributes") {
				return fmt.Errorf("found %d", len(found))
			}
			for _, source := range found[0].Usage {
				if *source.Count == 1 && slices.Equal(source.Ids, []string{of.id}) {
					return nil
				}
			}
			return fmt.Errorf("%s is in none of %v", of.id, found[0].Usage)
		})
	}
}
