package main

import (
	management_api "github.com/openziti/edge-api/rest_management_api_client"
	"github.com/openziti/edge-api/rest_management_api_client/certificate_authority"
	"github.com/openziti/edge-api/rest_model"
)

// cas is the kind of that name for one session.
func cas(api *management_api.ZitiEdgeManagement) kind[*rest_model.CaCreate, *rest_model.CaUpdate, *rest_model.CaPatch] {
	return kind[*rest_model.CaCreate, *rest_model.CaUpdate, *rest_model.CaPatch]{
		name: "cas",
		by:   "name",
		create: func(body *rest_model.CaCreate) (string, error) {
			return created(api.CertificateAuthority.CreateCa(certificate_authority.NewCreateCaParams().WithCa(body), nil))
		},
		detail: func(id string) (any, error) {
			answer, err := api.CertificateAuthority.DetailCa(certificate_authority.NewDetailCaParams().WithID(id), nil)
			if err != nil {
				return nil, err
			}
			return answer.Payload.Data, nil
		},
		list: func(q query) (page, error) {
			asked := certificate_authority.NewListCasParams().WithFilter(q.filter).WithLimit(q.limit).WithOffset(q.offset)
			answer, err := api.CertificateAuthority.ListCas(asked, nil)
			if err != nil {
				return page{}, err
			}
			return page{answer.Payload.Data, answer.Payload.Meta}, nil
		},
		update: func(id string, body *rest_model.CaUpdate) error {
			_, err := api.CertificateAuthority.UpdateCa(certificate_authority.NewUpdateCaParams().WithID(id).WithCa(body), nil)
			return err
		},
		patch: func(id string, body *rest_model.CaPatch) error {
			_, err := api.CertificateAuthority.PatchCa(certificate_authority.NewPatchCaParams().WithID(id).WithCa(body), nil)
			return err
		},
		remove: func(id string) error {
			_, err := api.CertificateAuthority.DeleteCa(certificate_authority.NewDeleteCaParams().WithID(id), nil)
			return err
		},
	}
}

func tryCas(r *report, n *network) {
	body := func(name string, by *authority) *rest_model.CaCreate {
		return &rest_model.CaCreate{
			Name: &name, Tags: tags(), CertPem: ptr(by.pem()), IdentityNameFormat: "[caName]-[commonName]",
			IdentityRoles: rest_model.Roles{n.name("enrolled")}, IsAuthEnabled: ptr(true),
			IsAutoCaEnrollmentEnabled: ptr(true), IsOttCaEnrollmentEnabled: ptr(false),
			ExternalIDClaim: &rest_model.ExternalIDClaim{
				Index: ptr(int64(0)), Location: ptr(rest_model.ExternalIDClaimLocationSANURI), Matcher: ptr(rest_model.ExternalIDClaimMatcherSCHEME),
				MatcherCriteria: ptr("spiffe"), Parser: ptr(rest_model.ExternalIDClaimParserNONE), ParserCriteria: ptr(""),
			},
		}
	}
	try(r, cas(n.admin), cas(n.nobody), n.name("ca"), bodies[*rest_model.CaCreate, *rest_model.CaUpdate, *rest_model.CaPatch]{
		create: func(name string) *rest_model.CaCreate { return body(name, n.authority(name)) },
		clash:  func(name string) *rest_model.CaCreate { return body(name, n.authority(name+"-other")) },
		update: func(name string) *rest_model.CaUpdate {
			return &rest_model.CaUpdate{
				Name: &name, IdentityNameFormat: ptr("[commonName]"), IdentityRoles: rest_model.Roles{}, IsAuthEnabled: ptr(false),
				IsAutoCaEnrollmentEnabled: ptr(false), IsOttCaEnrollmentEnabled: ptr(true),
			}
		},
		patch: func() *rest_model.CaPatch {
			// A patch that does not name the claim takes it away; an empty one keeps it.
			return &rest_model.CaPatch{
				IsAuthEnabled: ptr(false), Tags: tags("changed"), ExternalIDClaim: &rest_model.ExternalIDClaimPatch{},
			}
		},
		patched: []string{"isAuthEnabled", "tags"},
	})
}
