package main

import (
	"crypto/sha1"
	"crypto/tls"
	"encoding/hex"
	"errors"

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
	n.verifiedCA(r, "authenticators")
	known := n.authority("ca-authenticators")
	with := known.issue(n.name("certificate"))
	r.check("create with a certificate", func() error {
		body := &rest_model.AuthenticatorCreate{
			IdentityID: ptr(owner("certificate")), Method: ptr("cert"), CertPem: certificatePEM(with.Leaf),
		}
		entity, err := authenticators(n.admin).detail(keep(n, authenticators(n.admin), body))
		if err != nil {
			return err
		}
		sum := sha1.Sum(with.Leaf.Raw)
		return errors.Join(shown(body, entity), shown(map[string]any{"fingerprint": hex.EncodeToString(sum[:])}, entity))
	})
	r.check("create with a certificate of nobody", func() error {
		body := &rest_model.AuthenticatorCreate{
			IdentityID: ptr(owner("stranger")), Method: ptr("cert"), CertPem: certificatePEM(n.authority("unknown").issue("nobody").Leaf),
		}
		_, err := authenticators(n.admin).create(body)
		return refused(err, 400, "COULD_NOT_VALIDATE", "certPem")
	})
	r.check("log in with that certificate", func() error {
		m := &member{n: n, id: owner("certificate"), keys: []tls.Certificate{with}}
		return m.login()
	})
	r.check("create a second one of a method", func() error {
		body := &rest_model.AuthenticatorCreate{
			IdentityID: ptr(owner("certificate")), Method: ptr("cert"), CertPem: certificatePEM(known.issue("another").Leaf),
		}
		_, err := authenticators(n.admin).create(body)
		return refused(err, 400, "MAX_AUTHENTICATOR_METHODS_REACHED", "")
	})
}
