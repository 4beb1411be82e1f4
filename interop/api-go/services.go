package main

import (
	management_api "github.com/openziti/edge-api/rest_management_api_client"
	"github.com/openziti/edge-api/rest_management_api_client/service"
	"github.com/openziti/edge-api/rest_model"
)

// services is the kind of that name for one session.
func services(api *management_api.ZitiEdgeManagement) kind[*rest_model.ServiceCreate, *rest_model.ServiceUpdate, *rest_model.ServicePatch] {
	return kind[*rest_model.ServiceCreate, *rest_model.ServiceUpdate, *rest_model.ServicePatch]{
		name: "services",
		by:   "name",
		create: func(body *rest_model.ServiceCreate) (string, error) {
			return created(api.Service.CreateService(service.NewCreateServiceParams().WithService(body), nil))
		},
		detail: func(id string) (any, error) {
			answer, err := api.Service.DetailService(service.NewDetailServiceParams().WithID(id), nil)
			if err != nil {
				return nil, err
			}
			return answer.Payload.Data, nil
		},
		list: func(q query) (page, error) {
			asked := service.NewListServicesParams().WithFilter(q.filter).WithLimit(q.limit).WithOffset(q.offset)
			answer, err := api.Service.ListServices(asked, nil)
			if err != nil {
				return page{}, err
			}
			return page{answer.Payload.Data, answer.Payload.Meta}, nil
		},
		update: func(id string, body *rest_model.ServiceUpdate) error {
			_, err := api.Service.UpdateService(service.NewUpdateServiceParams().WithID(id).WithService(body), nil)
			return err
		},
		patch: func(id string, body *rest_model.ServicePatch) error {
			_, err := api.Service.PatchService(service.NewPatchServiceParams().WithID(id).WithService(body), nil)
			return err
		},
		remove: func(id string) error {
			_, err := api.Service.DeleteService(service.NewDeleteServiceParams().WithID(id), nil)
			return err
		},
	}
}

func tryServices(r *report, n *network) {
	first, second := n.config("service-first", n.configType("host.v1"), hostConfig(80)), n.config("service-second", n.configType("intercept.v1"), interceptConfig())
	try(r, services(n.admin), services(n.nobody), n.name("service"), bodies[*rest_model.ServiceCreate, *rest_model.ServiceUpdate, *rest_model.ServicePatch]{
		create: func(name string) *rest_model.ServiceCreate {
			return &rest_model.ServiceCreate{
				Name: &name, Tags: tags(), Configs: []string{first, second}, EncryptionRequired: ptr(true),
				MaxIdleTimeMillis: 60_000, RoleAttributes: n.names("web", "db"), TerminatorStrategy: "weighted",
			}
		},
		update: func(name string) *rest_model.ServiceUpdate {
			return &rest_model.ServiceUpdate{
				Name: &name, Configs: []string{second}, MaxIdleTimeMillis: 30_000,
				RoleAttributes: n.names("mail"), TerminatorStrategy: "smartrouting",
			}
		},
		patch: func() *rest_model.ServicePatch {
			return &rest_model.ServicePatch{MaxIdleTimeMillis: 90_000, Tags: tags("changed")}
		},
		patched: []string{"maxIdleTimeMillis", "tags"},
	})
}
