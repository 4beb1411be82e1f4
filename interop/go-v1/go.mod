module weft.example/interop/go-v1

go 1.25.0

require github.com/openziti/sdk-golang v1.9.0
