module github.com/signalbox-go/signalbox/contrib/goredis

go 1.25.0

require (
	github.com/redis/go-redis/v9 v9.22.0 // builds with 9.11.0, which replace can select
	github.com/redis/rueidis v1.0.79
	github.com/signalbox-go/signalbox v0.1.0
	github.com/stretchr/testify v1.12.1
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	go.uber.org/atomic v1.11.0 // indirect
	go.uber.org/goleak v1.3.0 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/sync v0.21.0 // indirect
	golang.org/x/sys v0.47.0 // indirect
)

replace github.com/signalbox-go/signalbox => ../../
