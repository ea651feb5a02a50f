module github.com/signalbox-go/signalbox/contrib/valkeygo

go 1.25.0

require (
	github.com/redis/rueidis v1.0.79
	github.com/signalbox-go/signalbox v0.1.0
	github.com/stretchr/testify v1.12.1
	github.com/valkey-io/valkey-go v1.0.79 // builds with 1.0.60, which replace can select
)

require (
	go.uber.org/goleak v1.3.0 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/sync v0.21.0 // indirect
	golang.org/x/sys v0.47.0 // indirect
)

replace github.com/signalbox-go/signalbox => ../../
