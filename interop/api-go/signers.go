package main

import (
	"crypto/sha1"
	"encoding/hex"
	"errors"

	"github.com/go-openapi/strfmt"
	management_api "github.com/openziti/edge-api/rest_management_api_client"
	"github.com/openziti/edge-api/rest_management_api_client/external_jwt_signer"
	"github.com/openziti/edge-api/rest_model"
)

// externalJWTSigners is the kind of that name for one session.
func externalJWTSigners(api *management_api.ZitiEdgeManagement) kind[*rest_model.ExternalJWTSignerCreate, *rest_model.ExternalJWTSignerUpdate, *rest_model.ExternalJWTSignerPatch] {
	return kind[*rest_model.ExternalJWTSignerCreate, *rest_model.ExternalJWTSignerUpdate, *rest_model.ExternalJWTSignerPatch]{
		name: "external-jwt-signers",
		by:   "name",
		create: func(body *rest_model.ExternalJWTSignerCreate) (string, error) {
			return created(api.ExternalJWTSigner.CreateExternalJWTSigner(external_jwt_signer.NewCreateExternalJWTSignerParams().WithExternalJWTSigner(body), nil))
		},
		detail: func(id string) (any, error) {
			answer, err := api.ExternalJWTSigner.DetailExternalJWTSigner(external_jwt_signer.NewDetailExternalJWTSignerParams().WithID(id), nil)
			if err != nil {
				return nil, err
			}
			return answer.Payload.Data, nil
		},
		list: func(q query) (page, error) {
			asked := external_jwt_signer.NewListExternalJWTSignersParams().WithFilter(q.filter).WithLimit(q.limit).WithOffset(q.offset)
			answer, err := api.ExternalJWTSigner.ListExternalJWTSigners(asked, nil)
			if err != nil {
				return page{}, err
			}
			return page{answer.Payload.Data, answer.Payload.Meta}, nil
		},
		update: func(id string, body *rest_model.ExternalJWTSignerUpdate) error {
			_, err := api.ExternalJWTSigner.UpdateExternalJWTSigner(external_jwt_signer.NewUpdateExternalJWTSignerParams().WithID(id).WithExternalJWTSigner(body), nil)
			return err
		},
		patch: func(id string, body *rest_model.ExternalJWTSignerPatch) error {
			_, err := api.ExternalJWTSigner.PatchExternalJWTSigner(external_jwt_signer.NewPatchExternalJWTSignerParams().WithID(id).WithExternalJWTSigner(body), nil)
			return err
		},
		remove: func(id string) error {
			_, err := api.ExternalJWTSigner.DeleteExternalJWTSigner(external_jwt_signer.NewDeleteExternalJWTSignerParams().WithID(id), nil)
			return err
		},
	}
}

func tryExternalJWTSigners(r *report, n *network) {
	policy := n.authPolicy("signer")
	try(r, externalJWTSigners(n.admin), externalJWTSigners(n.nobody), n.name("signer"), bodies[*rest_model.ExternalJWTSignerCreate, *rest_model.ExternalJWTSignerUpdate, *rest_model.ExternalJWTSignerPatch]{
		create: func(name string) *rest_model.ExternalJWTSignerCreate {
			return &rest_model.ExternalJWTSignerCreate{
				Name: &name, Tags: tags(), Audience: ptr("weft"), Issuer: ptr("https://" + name + ".example"), Enabled: ptr(true),
				JwksEndpoint: ptr(strfmt.URI("https://127.0.0.1:1/keys")), ClaimsProperty: ptr("/email"), ClientID: ptr("weft-client"),
				ExternalAuthURL: ptr("https://127.0.0.1:1/login"), Scopes: []string{"openid", "email"}, UseExternalID: ptr(true),
				TargetToken: ptr(rest_model.TargetTokenID), EnrollToCertEnabled: true, EnrollToTokenEnabled: true,
				EnrollAttributeClaimsSelector: "/roles", EnrollNameClaimsSelector: "/name", EnrollAuthPolicyID: policy,
			}
		},
		update: func(name string) *rest_model.ExternalJWTSignerUpdate {
			return &rest_model.ExternalJWTSignerUpdate{
				Name: &name, Audience: ptr("other"), Issuer: ptr("https://" + name + ".example"), Enabled: ptr(false),
				JwksEndpoint: ptr(strfmt.URI("https://127.0.0.1:2/keys")), Scopes: []string{"openid"},
			}
		},
		patch: func() *rest_model.ExternalJWTSignerPatch {
			return &rest_model.ExternalJWTSignerPatch{Audience: ptr("patched")}
		},
		patched: []string{"audience"},
	})
	by := n.authority("signer-by-certificate")
	body := func() *rest_model.ExternalJWTSignerCreate {
		return &rest_model.ExternalJWTSignerCreate{
			Name: ptr(n.name("signer-by-certificate")), Audience: ptr("weft"), Enabled: ptr(true), CertPem: ptr(by.pem()),
			Issuer: ptr("https://" + n.name("signer-by-certificate") + ".example"), Kid: ptr(n.name("kid")),
		}
	}
	r.check("create with a certificate", func() error {
		entity, err := externalJWTSigners(n.admin).detail(keep(n, externalJWTSigners(n.admin), body()))
		if err != nil {
			return err
		}
		sum := sha1.Sum(by.certificate.Raw)
		known := map[string]any{
			"commonName": "signer-by-certificate", "fingerprint": hex.EncodeToString(sum[:]),
			"notBefore": strfmt.DateTime(by.certificate.NotBefore), "notAfter": strfmt.DateTime(by.certificate.NotAfter),
		}
		return errors.Join(shown(body(), entity, "certPem"), shown(known, entity))
	})
	r.check("create with a certificate and a key set", func() error {
		both := body()
		both.Name, both.JwksEndpoint = ptr(n.name("signer-by-both")), ptr(strfmt.URI("https://127.0.0.1:1/keys"))
		_, err := externalJWTSigners(n.admin).create(both)
		return refused(err, 400, "INVALID_FIELD", "jwksEndpoint")
	})
}
