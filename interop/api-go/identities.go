package main

import (
	management_api "github.com/openziti/edge-api/rest_management_api_client"
	"github.com/openziti/edge-api/rest_management_api_client/identity"
	"github.com/openziti/edge-api/rest_model"
)

// identities is the kind of that name for one session.
func identities(api *management_api.ZitiEdgeManagement) kind[*rest_model.IdentityCreate, *rest_model.IdentityUpdate, *rest_model.IdentityPatch] {
	return kind[*rest_model.IdentityCreate, *rest_model.IdentityUpdate, *rest_model.IdentityPatch]{
		name: "identities",
		by:   "name",
		create: func(body *rest_model.IdentityCreate) (string, error) {
			return created(api.Identity.CreateIdentity(identity.NewCreateIdentityParams().WithIdentity(body), nil))
		},
		detail: func(id string) (any, error) {
			answer, err := api.Identity.DetailIdentity(identity.NewDetailIdentityParams().WithID(id), nil)
			if err != nil {
				return nil, err
			}
			return answer.Payload.Data, nil
		},
		list: func(q query) (page, error) {
			asked := identity.NewListIdentitiesParams().WithFilter(q.filter).WithLimit(q.limit).WithOffset(q.offset)
			answer, err := api.Identity.ListIdentities(asked, nil)
			if err != nil {
				return page{}, err
			}
			return page{answer.Payload.Data, answer.Payload.Meta}, nil
		},
		update: func(id string, body *rest_model.IdentityUpdate) error {
			_, err := api.Identity.UpdateIdentity(identity.NewUpdateIdentityParams().WithID(id).WithIdentity(body), nil)
			return err
		},
		patch: func(id string, body *rest_model.IdentityPatch) error {
			_, err := api.Identity.PatchIdentity(identity.NewPatchIdentityParams().WithID(id).WithIdentity(body), nil)
			return err
		},
		remove: func(id string) error {
			_, err := api.Identity.DeleteIdentity(identity.NewDeleteIdentityParams().WithID(id), nil)
			return err
		},
	}
}

func tryIdentities(r *report, n *network) {
	service := n.service("hosted")
	policy := n.authPolicy("identity")
	for _, kindOf := range []rest_model.IdentityType{"Default", "User", "Device", "Service"} {
		of, nobody := identities(n.admin), identities(n.nobody)
		of.name += " (" + string(kindOf) + ")"
		try(r, of, nobody, n.name("identity"), bodies[*rest_model.IdentityCreate, *rest_model.IdentityUpdate, *rest_model.IdentityPatch]{
			create: func(name string) *rest_model.IdentityCreate {
				return &rest_model.IdentityCreate{
					Name: &name, Type: &kindOf, IsAdmin: ptr(false), Tags: tags(), AppData: appData(), AuthPolicyID: &policy,
					ExternalID: ptr("external-" + name), RoleAttributes: n.attributes("web", "db"),
					DefaultHostingCost: ptr(rest_model.TerminatorCost(3)), DefaultHostingPrecedence: rest_model.TerminatorPrecedenceRequired,
					ServiceHostingCosts:       rest_model.TerminatorCostMap{service: ptr(rest_model.TerminatorCost(4))},
					ServiceHostingPrecedences: rest_model.TerminatorPrecedenceMap{service: rest_model.TerminatorPrecedenceFailed},
					Enrollment:                &rest_model.IdentityCreateEnrollment{Ott: true},
					Permissions:               &rest_model.Permissions{"ops.read", "service"},
				}
			},
			update: func(name string) *rest_model.IdentityUpdate {
				return &rest_model.IdentityUpdate{
					Name: &name, Type: &kindOf, IsAdmin: ptr(true), AuthPolicyID: ptr("default"), RoleAttributes: n.attributes("mail"),
					DefaultHostingCost: ptr(rest_model.TerminatorCost(5)), DefaultHostingPrecedence: rest_model.TerminatorPrecedenceDefault,
				}
			},
			patch: func() *rest_model.IdentityPatch {
				return &rest_model.IdentityPatch{RoleAttributes: n.attributes("mail"), DefaultHostingCost: ptr(rest_model.TerminatorCost(2))}
			},
			patched: []string{"roleAttributes", "defaultHostingCost"},
			// Details have a reference to the type by another name, and the enrollment itself.
			hidden: []string{"type", "enrollment.ott"},
		})
	}
}
