package main

import (
	management_api "github.com/openziti/edge-api/rest_management_api_client"
	"github.com/openziti/edge-api/rest_management_api_client/auth_policy"
	"github.com/openziti/edge-api/rest_model"
)

// authPolicies is the kind of that name for one session.
func authPolicies(api *management_api.ZitiEdgeManagement) kind[*rest_model.AuthPolicyCreate, *rest_model.AuthPolicyUpdate, *rest_model.AuthPolicyPatch] {
	return kind[*rest_model.AuthPolicyCreate, *rest_model.AuthPolicyUpdate, *rest_model.AuthPolicyPatch]{
		name: "auth-policies",
		by:   "name",
		create: func(body *rest_model.AuthPolicyCreate) (string, error) {
			return created(api.AuthPolicy.CreateAuthPolicy(auth_policy.NewCreateAuthPolicyParams().WithAuthPolicy(body), nil))
		},
		detail: func(id string) (any, error) {
			answer, err := api.AuthPolicy.DetailAuthPolicy(auth_policy.NewDetailAuthPolicyParams().WithID(id), nil)
			if err != nil {
				return nil, err
			}
			return answer.Payload.Data, nil
		},
		list: func(q query) (page, error) {
			asked := auth_policy.NewListAuthPoliciesParams().WithFilter(q.filter).WithLimit(q.limit).WithOffset(q.offset)
			answer, err := api.AuthPolicy.ListAuthPolicies(asked, nil)
			if err != nil {
				return page{}, err
			}
			return page{answer.Payload.Data, answer.Payload.Meta}, nil
		},
		update: func(id string, body *rest_model.AuthPolicyUpdate) error {
			_, err := api.AuthPolicy.UpdateAuthPolicy(auth_policy.NewUpdateAuthPolicyParams().WithID(id).WithAuthPolicy(body), nil)
			return err
		},
		patch: func(id string, body *rest_model.AuthPolicyPatch) error {
			_, err := api.AuthPolicy.PatchAuthPolicy(auth_policy.NewPatchAuthPolicyParams().WithID(id).WithAuthPolicy(body), nil)
			return err
		},
		remove: func(id string) error {
			_, err := api.AuthPolicy.DeleteAuthPolicy(auth_policy.NewDeleteAuthPolicyParams().WithID(id), nil)
			return err
		},
	}
}

func tryAuthPolicies(r *report, n *network) {
	signer := n.signer("auth-policy")
	primary := func(attempts int64) *rest_model.AuthPolicyPrimary {
		return &rest_model.AuthPolicyPrimary{
			Cert:   &rest_model.AuthPolicyPrimaryCert{Allowed: ptr(true), AllowExpiredCerts: ptr(false)},
			ExtJWT: &rest_model.AuthPolicyPrimaryExtJWT{Allowed: ptr(true), AllowedSigners: []string{signer}},
			Updb: &rest_model.AuthPolicyPrimaryUpdb{
				Allowed: ptr(true), LockoutDurationMinutes: ptr(int64(3)), MaxAttempts: &attempts, MinPasswordLength: ptr(int64(7)),
				RequireMixedCase: ptr(true), RequireNumberChar: ptr(true), RequireSpecialChar: ptr(false),
			},
		}
	}
	try(r, authPolicies(n.admin), authPolicies(n.nobody), n.name("auth-policy"), bodies[*rest_model.AuthPolicyCreate, *rest_model.AuthPolicyUpdate, *rest_model.AuthPolicyPatch]{
		create: func(name string) *rest_model.AuthPolicyCreate {
			return &rest_model.AuthPolicyCreate{
				Name: &name, Tags: tags(), Primary: primary(5),
				Secondary: &rest_model.AuthPolicySecondary{RequireExtJWTSigner: &signer, RequireTotp: ptr(true)},
			}
		},
		update: func(name string) *rest_model.AuthPolicyUpdate {
			return &rest_model.AuthPolicyUpdate{AuthPolicyCreate: rest_model.AuthPolicyCreate{
				Name: &name, Primary: primary(6), Secondary: &rest_model.AuthPolicySecondary{RequireTotp: ptr(false)},
			}}
		},
		patch: func() *rest_model.AuthPolicyPatch {
			return &rest_model.AuthPolicyPatch{Primary: &rest_model.AuthPolicyPrimaryPatch{Updb: &rest_model.AuthPolicyPrimaryUpdbPatch{MaxAttempts: ptr(int64(9))}}}
		},
		patched: []string{"primary.updb.maxAttempts"},
	})
	r.check("delete of one that a signer has", func() error {
		policy := n.authPolicy("kept")
		keep(n, externalJWTSigners(n.admin), &rest_model.ExternalJWTSignerCreate{
			Name: ptr(n.name("keeping")), Audience: ptr("weft"), Enabled: ptr(true), Issuer: ptr("https://" + n.name("keeping") + ".example"),
			CertPem: ptr(n.authority("keeping").pem()), Kid: ptr(n.name("keeping")), EnrollAuthPolicyID: policy,
		})
		return undocumented(authPolicies(n.admin).remove(policy), 409)
	})
	r.check("delete of a signer that one has", func() error {
		signer := n.signer("kept")
		body := &rest_model.AuthPolicyCreate{
			Name: ptr(n.name("keeping")), Primary: primary(5),
			Secondary: &rest_model.AuthPolicySecondary{RequireTotp: ptr(false), RequireExtJWTSigner: &signer},
		}
		keep(n, authPolicies(n.admin), body)
		return undocumented(externalJWTSigners(n.admin).remove(signer), 409)
	})
}
