module github.com/signalbox-go/signalbox/examples/asynq

go 1.25.0

require (
	github.com/hibiken/asynq v0.26.0
	github.com/redis/go-redis/v9 v9.22.0
	github.com/signalbox-go/signalbox v0.1.0
	github.com/signalbox-go/signalbox/examples v0.1.0
	github.com/stretchr/testify v1.12.1
)

require (
	github.com/alicebob/miniredis/v2 v2.40.0 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/redis/rueidis v1.0.79 // indirect
	github.com/robfig/cron/v3 v3.0.1 // indirect
	github.com/signalbox-go/signalbox/signalboxtest v0.1.0 // indirect
	github.com/spf13/cast v1.10.0 // indirect
	github.com/yuin/gopher-lua v1.1.1 // indirect
	go.uber.org/atomic v1.11.0 // indirect
	go.uber.org/goleak v1.3.0 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/sync v0.21.0 // indirect
	golang.org/x/sys v0.47.0 // indirect
	golang.org/x/time v0.14.0 // indirect
	google.golang.org/protobuf v1.36.10 // indirect
)

replace (
	github.com/signalbox-go/signalbox => ../../
	github.com/signalbox-go/signalbox/contrib/goredis => ../../contrib/goredis
	github.com/signalbox-go/signalbox/contrib/valkeygo => ../../contrib/valkeygo
	github.com/signalbox-go/signalbox/examples => ../
	github.com/signalbox-go/signalbox/signalboxtest => ../../signalboxtest
)
