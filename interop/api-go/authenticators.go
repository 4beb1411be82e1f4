package main

import (
	management_api "github.com/openziti/edge-api/rest_management_api_client"
	"github.com/openziti/edge-api/rest_management_api_client/authenticator"
	"github.com/openziti/edge-api/rest_model"
)

// authenticators is the kind of that name for one session.
func authenticators(api *management_api.ZitiEdgeManagement) kind[*rest_model.AuthenticatorCreate, *rest_model.AuthenticatorUpdate, *rest_model.AuthenticatorPatch] {
	return kind[*rest_model.AuthenticatorCreate, *rest_model.AuthenticatorUpdate, *rest_model.AuthenticatorPatch]{
		name: "authenticators",
		by:   "updbUsername",
		create: func(body *rest_model.AuthenticatorCreate) (string, error) {
			return created(api.Authenticator.CreateAuthenticator(authenticator.NewCreateAuthenticatorParams().WithAuthenticator(body), nil))
		},
		detail: func(id string) (any, error) {
			answer, err := api.Authenticator.DetailAuthenticator(authenticator.NewDetailAuthenticatorParams().WithID(id), nil)
			if err != nil {
				return nil, err
			}
			return answer.Payload.Data, nil
		},
		list: func(q query) (page, error) {
			asked := authenticator.NewListAuthenticatorsParams().WithFilter(q.filter).WithLimit(q.limit).WithOffset(q.offset)
			answer, err := api.Authenticator.ListAuthenticators(asked, nil)
			if err != nil {
				return page{}, err
			}
			return page{answer.Payload.Data, answer.Payload.Meta}, nil
		},
		update: func(id string, body *rest_model.AuthenticatorUpdate) error {
			_, err := api.Authenticator.UpdateAuthenticator(authenticator.NewUpdateAuthenticatorParams().WithID(id).WithAuthenticator(body), nil)
			return err
		},
		patch: func(id string, body *rest_model.AuthenticatorPatch) error {
			_, err := api.Authenticator.PatchAuthenticator(authenticator.NewPatchAuthenticatorParams().WithID(id).WithAuthenticator(body), nil)
			return err
		},
		remove: func(id string) error {
			_, err := api.Authenticator.DeleteAuthenticator(authenticator.NewDeleteAuthenticatorParams().WithID(id), nil)
			return err
		},
	}
}

func tryAuthenticators(r *report, n *network) {
	owners := map[string]string{}
	owner := func(name string) string {
		if owners[name] == "" {
			owners[name] = n.identity(name)
		}
		return owners[name]
	}
	try(r, authenticators(n.admin), authenticators(n.nobody), n.name("authenticator"), bodies[*rest_model.AuthenticatorCreate, *rest_model.AuthenticatorUpdate, *rest_model.AuthenticatorPatch]{
		create: func(name string) *rest_model.AuthenticatorCreate {
			return &rest_model.AuthenticatorCreate{
				IdentityID: ptr(owner(name)), Method: ptr("updb"), Username: name, Password: "a good password", Tags: tags(),
			}
		},
		update: func(name string) *rest_model.AuthenticatorUpdate {
			return &rest_model.AuthenticatorUpdate{Username: ptr(rest_model.Username(name)), Password: ptr(rest_model.Password("another password"))}
		},
		patch: func() *rest_model.AuthenticatorPatch {
			return &rest_model.AuthenticatorPatch{Tags: tags("changed")}
		},
		patched: []string{"tags"},
		hidden:  []string{"password"},
		unnamed: true,
	})
}
