module weft.example/interop/go-v2

go 1.25.0

require github.com/openziti/sdk-golang/v2 v2.0.0-pre4
